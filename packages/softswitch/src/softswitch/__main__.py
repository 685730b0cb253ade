from softswitch.verbs import main

if __name__ == "__main__":
    main()
