//! A program, line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use crate::{receive, try_receive, wait_for_value};

/// A running program. Dropping it ends it.
#[derive(Debug)]
pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    said: Arc<Mutex<String>>,
    /// Disconnected after the program has closed its stderr.
    ended: Receiver<()>,
}

impl Program {
    /// Starts the command with pipes.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("start the program");
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().expect("its stdout"));
        // This thread ends, and with it the pipe, when the test stops listening.
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        let said = Arc::new(Mutex::new(String::new()));
        let ended = keep(child.stderr.take().expect("its stderr"), Arc::clone(&said));
        let stdin = child.stdin.take();
        Self { child, stdin, lines, said, ended }
    }

    /// Writes to its stdin.
    pub fn give(&mut self, lines: &str) {
        let stdin = self.stdin.as_mut().expect("an open stdin");
        stdin.write_all(lines.as_bytes()).expect("a program that reads");
    }

    /// Waits for the next line of its stdout; `None` after the last one.
    pub fn line(&mut self) -> Option<String> {
        receive(&self.lines, "a line of the program")
    }

    /// Waits for this many lines.
    pub fn lines(&mut self, count: usize) -> Vec<String> {
        let line = |_| self.line();
        let lines: Vec<String> = (0..count).map_while(line).collect();
        assert_eq!(lines.len(), count, "it ended after {lines:?} and said {}", self.said());
        lines
    }

    /// Waits for this text on stderr.
    pub fn until_said(&self, sentence: &str) {
        let what = format!("the program to say {sentence:?}");
        wait_for_value(&what, || self.said(), |said| said.contains(sentence));
    }

    /// Returns its stderr so far.
    pub fn said(&self) -> String {
        self.said.lock().expect("what it said").clone()
    }

    /// Returns whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_some()
    }

    /// Closes its stdout after the next line.
    pub fn stop_listening(&mut self) {
        self.lines = channel().1;
    }

    /// Sends SIGINT.
    pub fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("signal the program");
    }

    /// Stops it, so that it reads nothing, until `resume`.
    pub fn pause(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).expect("stop the program");
    }

    /// Lets it run again after `pause`.
    pub fn resume(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("resume the program");
    }

    /// Sends SIGKILL.
    pub fn kill(&self) {
        kill_process(Pid::from_child(&self.child), Signal::KILL).expect("kill the program");
    }

    /// Closes its stdin and waits for its exit. Returns the status and its stderr.
    pub fn end(&mut self) -> (ExitStatus, String) {
        self.stdin = None;
        let is_ended = try_receive(&self.ended) == Err(RecvTimeoutError::Disconnected);
        assert!(is_ended, "it does not end; it said: {}", self.said());
        (self.child.wait().expect("its status"), self.said())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the program said:\n{}", self.said());
        }
    }
}

fn keep(mut stderr: impl Read + Send + 'static, said: Arc<Mutex<String>>) -> Receiver<()> {
    let (running, ended) = channel();
    thread::spawn(move || {
        let _running = running;
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = stderr.read(&mut bytes) {
            if let Ok(mut text) = said.lock() {
                text.push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
        }
    });
    ended
}
