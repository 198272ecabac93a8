//! Failing log and output streams do not end the program.

use std::fs::File;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Signal, kill_process};

use crate::harness::{Server, Terminal, Transport, close, wait_for};

const BINARY: &str = env!("CARGO_BIN_EXE_thalweg");

/// The server continues after a failed write to its log, and exits cleanly.
fn serves_to_the_end(mut command: Command, stderr: impl Into<Stdio>) {
    // The log has several lines, before and after the first one that is lost.
    let mut server = Server::start_by(command.arg("serve"), &["--log", "debug"], stderr.into());
    let mut subscriber = server.subscribe(Transport::Sse, "/t");
    subscriber.confirmed();
    for _ in 0..3 {
        kill_process(server.pid(), Signal::HUP).expect("signal the server");
    }
    server.publish("t", 0..3);
    assert_eq!(subscriber.numbers(3).0, [0, 1, 2]);
    server.terminate();
    assert_eq!(subscriber.next(), close(Transport::Sse, 1001, "draining", true));
    assert_eq!(server.exit().code(), Some(0));
}

#[test]
fn logs_on_a_full_disk_end_nothing() {
    let full = File::options().write(true).open("/dev/full").expect("a disk that is full");
    serves_to_the_end(Command::new(BINARY), full);
}

#[test]
fn logs_on_a_closed_stderr_end_nothing() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" 2>&-", BINARY]);
    serves_to_the_end(shell, Stdio::null());
}

#[test]
fn a_closed_log_does_not_end_the_server() {
    serves_to_the_end(Command::new(BINARY), unread());
}

#[test]
fn logs_that_wait_to_be_read_hold_nothing_up() {
    let (_reader, writer) = full_pipe();
    serves_to_the_end(Command::new(BINARY), writer);
}

/// The server has fewer connections than its settings say, which the operator can change.
#[test]
fn a_low_limit_of_open_files_is_a_warning() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 256 && exec \"$0\" \"$@\"", BINARY, "serve"]);
    let server = Server::start_by(&mut shell, &["--log", "warn"], Stdio::piped());
    wait_for("the warning", || {
        server.log().contains("fewer than limits.connections").then_some(())
    });
}

/// <https://no-color.org>
#[test]
fn a_terminal_has_colours_unless_no_color_is_set() {
    let logged = |environment: (&str, &str)| {
        let terminal = Terminal::open();
        {
            let mut command = Command::new(BINARY);
            command.env_remove("NO_COLOR").env("TERM", "xterm");
            command.envs([environment]).arg("serve");
            let mut server = Server::start_by(&mut command, &[], terminal.stdio());
            server.terminate();
            assert_eq!(server.exit().code(), Some(0));
        }
        terminal.read_to_end()
    };
    for coloured in [("TERM", "xterm"), ("NO_COLOR", "")] {
        assert!(logged(coloured).contains('\u{1b}'), "{coloured:?}");
    }
    for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let log = logged(plain);
        assert!(log.contains("serving") && !log.contains('\u{1b}'), "{plain:?}: {log:?}");
    }
}

fn unread() -> PipeWriter {
    pipe().expect("a pipe").1
}

fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("a pipe");
    let flags = fcntl_getfl(&writer).expect("its flags");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("set its flags");
    while writer.write(&[b'.'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).expect("set its flags");
    (reader, writer)
}

/// As with `2>&1 | head -1`, after head has exited.
fn success_without_readers(arguments: &[&str], lines: &str) {
    let mut command = Command::new(BINARY);
    command.args(arguments).stdin(Stdio::piped()).stdout(unread()).stderr(unread());
    let mut child = command.spawn().expect("start the program");
    let mut stdin = child.stdin.take().expect("its stdin");
    stdin.write_all(lines.as_bytes()).expect("a program that reads");
    drop(stdin);
    assert_eq!(child.wait().expect("its end").code(), Some(0), "{arguments:?}");
}

#[test]
fn commands_work_without_a_reader_of_their_output() {
    let server = Server::start(&[]);
    let url = format!("http://{}/v1/topics/lines", server.address);
    success_without_readers(&["pub", &url], "1\n2\n3\n");
    success_without_readers(&["pub", "--fast", &url], "4\n5\n");
    let read = server.get("/v1/topics/lines?limit=10").text();
    assert!(read.contains("\"events\":[1,2,3,4,5]"), "{read}");
    // Without a reader `tail` ends.
    success_without_readers(&["tail", &url, "--from", "earliest"], "");
    success_without_readers(&["serve", "--check"], "");
    success_without_readers(&["--help"], "");
}
