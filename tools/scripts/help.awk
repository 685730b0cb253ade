# Print the targets of the Makefile in 80 columns: `awk -v mark=@ -f help.awk Makefile`.
#
# A group begins with `##@ TITLE` for users, or `##! TITLE` for developers; `mark` chooses which groups are shown.
BEGIN { FS = ":.*## " }
/^##[@!] / {
    shown = substr($0, 3, 1) == mark
    if (shown) print (count++ ? "\n" : "") substr($0, 5)
}
shown && /^[a-z0-9-]+:.*## / {
    line = sprintf("  make %-12s", $1)
    words = split($2, word, " ")
    for (number = 1; number <= words; number++) {
        if (length(line) + 1 + length(word[number]) > 80) {
            print line
            line = sprintf("%19s", "")
        }
        line = line " " word[number]
    }
    print line
}
