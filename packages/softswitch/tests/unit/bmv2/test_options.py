"""BMv2's command line: what it asks for, what is without effect, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from softswitch.bmv2 import command, options
from softswitch.bmv2.command import settings_of
from softswitch.bmv2.options import GENERAL_OPTIONS, GRPC, TARGET_OPTIONS, THRIFT, parse
from softswitch.errors import SwitchError
from softswitch.p4runtime.access import make_policy
from softswitch.settings import Datapath, FrameTransport, Settings, ThriftSettings
from switch_harness import PROGRAMS
from switch_harness.wording import mentions, says_in_one_line

PROGRAM = str(PROGRAMS / "ecn.json")


def asked(*words: str, program: str = GRPC) -> tuple[Settings, list[str]]:
    values = parse(program, words)
    return settings_of(program, values), values.warnings


def test_a_command_line_of_the_p4_tutorials_is_parsed(tmp_path: Path) -> None:
    words = (
        f"-i 1@s1-eth1 -i 2@s1-eth2 --pcap {tmp_path} --nanolog ipc:///tmp/bm-0-log.ipc --device-id 0 "
        f"{PROGRAM} --log-console --thrift-port 9091 "
        "-- --grpc-server-addr 0.0.0.0:50051 --cpu-port 510 --priority-queues 4"
    )
    settings, warnings = asked(*words.split())
    assert settings == Settings(
        program=Path(PROGRAM),
        ports={1: "s1-eth1", 2: "s1-eth2"},
        device_id=0,
        addresses=("0.0.0.0:50051",),
        thrift=ThriftSettings("127.0.0.1:9091", make_policy()),
        refuses_unset_config=True,
        priority_queues=4,
        cpu_port=510,
        pcap=tmp_path,
    )
    assert [line.partition(":")[0] for line in warnings] == ["--nanolog"]


def test_the_defaults_are_bmv2s_defaults() -> None:
    grpc, warnings = asked("--no-p4")
    assert (grpc.program, grpc.device_id, grpc.addresses) == (None, 0, ("0.0.0.0:9559",))
    assert (grpc.cpu_port, grpc.priority_queues, grpc.pcap, warnings) == (None, 1, None, [])
    thrift, warnings = asked(PROGRAM, program=THRIFT)
    assert thrift.thrift == ThriftSettings("127.0.0.1:9090", make_policy())
    assert (thrift.addresses, grpc.thrift, warnings) == (("127.0.0.1:0",), None, [])


def test_options_are_parsed_in_all_forms_that_boost_reads(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert asked(PROGRAM, "--pcap")[0].pcap == Path()
    assert asked("--device-id=7", f"--pcap={tmp_path}", PROGRAM)[0].device_id == 7
    assert asked("-i1@a", PROGRAM, "--dev", "3")[0].ports == {1: "a"}
    assert asked("-i", "1@a", "--", PROGRAM, "--cpu-port", "9")[0].program == Path(PROGRAM)
    assert asked("--no-p4", PROGRAM)[1] == [f"{PROGRAM}: not loaded, because of --no-p4"]
    assert asked(PROGRAM, "--", "--priority-queues", "64")[0].priority_queues == 8


def test_each_option_of_bmv2_is_accepted_and_options_without_effect_warn() -> None:
    for program, target in TARGET_OPTIONS.items():
        for option, behind in [*((o, False) for o in GENERAL_OPTIONS), *((o, True) for o in target)]:
            value = "511" if option.names[-1] == "--drop-port" else "1"
            words = [option.names[-1], *([] if option.argument is None else [value])]
            if option.keywords.get("choices"):
                words[1] = option.keywords["choices"][0]
            values = parse(program, [PROGRAM, "--", *words] if behind else [*words, PROGRAM])
            message = [line.partition(":")[0] for line in values.warnings]
            assert message == ([] if option.warning is None else [option.names[-1]]), option


def test_the_datapath_that_errors_of_commands_ask_for_is_an_option_of_the_target() -> None:
    assert asked(PROGRAM)[0].datapath is Datapath.AUTO
    for program in TARGET_OPTIONS:
        for datapath in Datapath:
            settings, warnings = asked(PROGRAM, "--", "--datapath", datapath.value, program=program)
            assert (settings.datapath, warnings) == (datapath, [])


def test_frames_come_over_grpc_nanomsg_or_pcap_files_as_with_bmv2(tmp_path: Path) -> None:
    words = (
        "-i",
        "1@a",
        "--pcap",
        str(tmp_path),
        "--",
        "--datapath",
        "auto",
        "--dp-grpc-server-addr",
        "[::1]:5",
    )
    grpc, warnings = asked(PROGRAM, *words)
    assert grpc.frames == FrameTransport("grpc", "[::1]:5")
    assert [line.partition(":")[0] for line in warnings] == ["--pcap", "--datapath", "--interface"]
    assert asked(PROGRAM, "--packet-in", "ipc:///a")[0].frames == FrameTransport("nanomsg", "ipc:///a")
    files, warnings = asked(
        "--use-files", "0", "-i 1@pcap1", PROGRAM, program=THRIFT
    )  # as p4c's runner has it
    assert (files.frames, files.ports, warnings) == (FrameTransport("files", "0"), {1: "pcap1"}, [])
    assert asked(PROGRAM)[0].frames is None


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "expected a program (BMv2 JSON) or --no-p4, got neither"),
        (["--frobnicate", PROGRAM], "--frobnicate: BMv2 has no such option, see --help"),
        ([PROGRAM, "second.json"], "second.json: BMv2 has no such argument, see --help"),
        ([PROGRAM, "--cpu-port", "5"], "--cpu-port is an option of the target: it goes after `--`"),
        ([PROGRAM, "--", "--port-rate=1=1pps"], "--port-rate: BMv2 has no such option, see --help"),
        ([PROGRAM, "--", "--cpu-port", "511"], "--cpu-port 511: expected 1 to 510"),
        ([PROGRAM, "--", "--cpu-port", "0"], "--cpu-port 0: expected 1 to 510"),
        ([PROGRAM, "--", "--drop-port", "100"], "--drop-port 100: expected 511"),
        ([PROGRAM, "--device-id", "-1"], "--device-id -1: expected 0 or more"),
        ([PROGRAM, "--pcap", "/nowhere"], "--pcap /nowhere: there is no such folder"),
        ([PROGRAM, "-i", "1@a", "-i", "1@b"], "-i 1@b: the option is given twice for this port"),
        ([PROGRAM, "--use-files", "0", "--packet-in", "a"], "expected --use-files or --packet-in, got both"),
        ([PROGRAM, "-i", "s1-eth1"], "expected PORT@INTERFACE, as 1@s1-eth1, got 's1-eth1'"),
        (
            [PROGRAM, "--", "--grpc-server-ssl"],
            "--grpc-server-ssl needs --grpc-server-cert and --grpc-server-key",
        ),
    ],
)
def test_wrong_command_lines_are_refused_with_the_reason(words: list[str], error: str) -> None:
    with pytest.raises(SwitchError) as refused:
        asked(*words)
    assert str(refused.value) == error


@pytest.mark.parametrize("words", [["-L", "loud", PROGRAM], ["--device-id", "one", PROGRAM]])
def test_invalid_values_of_options_are_named(words: list[str]) -> None:
    with pytest.raises(SwitchError, match=words[1]):
        asked(*words)


def test_simple_switch_has_no_options_of_grpc() -> None:
    with pytest.raises(SwitchError, match=mentions("--grpc-server-addr", "BMv2")):
        asked(PROGRAM, "--", "--grpc-server-addr", "0.0.0.0:9559", program=THRIFT)


def ended(monkeypatch: pytest.MonkeyPatch, *words: str) -> str | int | None:
    monkeypatch.setattr(sys, "argv", ["softswitch", "run-as", *words])
    with pytest.raises(SystemExit) as end:
        command.main(list(words))
    return end.value.code


def test_errors_of_the_command_line_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "no" / "log"
    assert (
        ended(monkeypatch, "bmv2")
        == "bmv2: error: expected one of simple_switch, simple_switch_grpc, got bmv2"
    )
    assert says_in_one_line(
        ended(monkeypatch, GRPC, PROGRAM, "--log-file", str(log)), "error", "--log-file", GRPC, log
    )
    assert ended(monkeypatch, GRPC, PROGRAM, "--log-file", "a", "--log-console") == (
        f"{GRPC}: error: expected --log-console or --log-file, got both"
    )


def test_the_version_and_the_help_are_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main([GRPC, "--version"])
    assert capsys.readouterr().out.split()[0] == command.VERSION
    command.main([GRPC, "--json-version"])
    assert capsys.readouterr().out == f"{command.JSON_VERSION}\n"
    assert ended(monkeypatch, GRPC, "--help") == 0
    reported = capsys.readouterr().out
    assert all(
        name in reported
        for option in (*GENERAL_OPTIONS, *options.TARGET_OPTIONS[GRPC])
        for name in option.names
    )


def test_thrift_has_the_port_and_the_notifications_of_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--no-p4", "--thrift-port", "9091", "--notifications-addr", "ipc:///tmp/n.ipc")
    expected = ThriftSettings("127.0.0.1:9091", make_policy(), "ipc:///tmp/n.ipc")
    for program in TARGET_OPTIONS:
        settings, warnings = asked(*words, program=program)
        assert (settings.thrift, warnings) == (expected, [])
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    (warning,) = asked(*words)[1]
    assert says_in_one_line(warning, "--notifications-addr", "need", "hotline-softswitch[nanomsg]")
    settings, (warning,) = asked(
        "--no-p4", "--thrift-port", "9091", "--", "--grpc-server-addr", "127.0.0.1:9091"
    )
    assert (settings.thrift, settings.addresses) == (None, ("127.0.0.1:9091",))
    assert says_in_one_line(warning, "--thrift-port 9091", "no Thrift")
    with pytest.raises(SwitchError, match=mentions("--thrift-port 65536", "0 to 65535")):
        asked("--no-p4", "--thrift-port", "65536")


def test_a_certificate_does_not_let_a_client_call_over_thrift() -> None:
    values = parse(GRPC, ["--no-p4", "--thrift-port", "9091", "--", "--allow-user", "12345"])
    values.grpc_server_ssl = values.grpc_server_with_client_auth = True
    thrift = command.thrift_settings(GRPC, values)
    assert thrift is not None
    assert thrift.access == make_policy(["12345"])
