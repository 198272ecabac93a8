//! CPU and memory of a subject, compared with other measurements.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use thalweg_lab::measure::Resources;

const TIME: &str = "/usr/bin/time";

/// Two processes that burn 1.2 s of CPU each, the second with 80 MB; both then wait until their input ends.
const BURN: &str = r#"
import os, sys, time
def burn():
    while time.process_time() < 1.2:
        sum(range(1000))
pid = os.fork()
if pid == 0:
    held = bytearray(80_000_000)
    for at in range(0, len(held), 4096):
        held[at] = 1
    burn()
    print(os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
burn()
print(os.getpid(), flush=True)
os.waitpid(pid, 0)
"#;

#[test]
fn cpu_and_memory_agree_with_time_and_proc() {
    assert!(std::path::Path::new(TIME).exists(), "install time: apt-get install time");
    let mut child = Command::new(TIME)
        .args(["-v", "python3", "-c", BURN])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let pids = [(); 2].map(|()| lines.next().unwrap().unwrap().parse::<u32>().unwrap());

    let tree = Resources::tree(&[child.id()]);
    assert!(pids.iter().all(|pid| tree.contains(pid)), "{pids:?} in {tree:?}");
    let all = Resources::read(child.id()).unwrap();
    let largest = tree.iter().map(|&pid| Resources::glance(&[pid]).1).max().unwrap();
    let in_proc: f64 = tree.iter().map(|&pid| stat_cpu_s(pid)).sum();
    let pss_bytes = Resources::pss_bytes(&tree).unwrap();

    let mut input = child.stdin.take().unwrap();
    input.write_all(b"end").unwrap();
    drop(input);
    let mut printed = String::new();
    child.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
    child.wait().unwrap();

    let cpu_s = all.cpu_ns as f64 / 1e9;
    let timed_s = number(&printed, "User time") + number(&printed, "System time");
    assert_close(cpu_s, timed_s, "CPU and time's");
    assert_close(cpu_s, in_proc, "CPU and /proc's");
    assert_close(
        largest as f64,
        number(&printed, "Maximum resident") * 1024.0,
        "memory and time's",
    );
    // Shared memory is in each one's resident memory, and once in this.
    assert!(pss_bytes > 80_000_000 && pss_bytes < all.rss_bytes, "{pss_bytes} {all:?}");
}

/// Children that burn 50 ms of CPU each and end, one after the other, twenty in all; meanwhile others that end at once.
const SPAWN: &str = r#"
import os, sys, time
for number in range(20):
    for _ in range(10):
        if os.fork() == 0:
            os._exit(0)
    if os.fork() == 0:
        while time.process_time() < 0.05:
            pass
        os._exit(0)
    for _ in range(11):
        os.wait()
print("done", flush=True)
sys.stdin.read()
"#;

#[test]
fn children_that_come_and_go_are_counted_and_never_an_error() {
    let mut child = Command::new("python3")
        .args(["-c", SPAWN])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let done = std::thread::spawn(move || out.read_exact(&mut [0; 4]));
    let (mut most_ns, mut looks) = (0, 0);
    while !done.is_finished() {
        let found = Resources::read(child.id()).unwrap();
        // No CPU time is forgotten, but for the ticks that it is counted in.
        assert!(found.cpu_ns + 40_000_000 > most_ns, "{found:?} after {most_ns}");
        most_ns = most_ns.max(found.cpu_ns);
        looks += 1;
    }
    done.join().unwrap().unwrap();
    let found = Resources::read(child.id()).unwrap();
    assert!(looks > 10 && found.cpu_ns >= 950_000_000, "{looks} looks, at last {found:?}");
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(Resources::read(child.id()).is_err());
}

/// User and system time of a process and of its children that have ended, by its own count in ticks of 10 ms.
fn stat_cpu_s(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    let ticks = |field: usize| fields.split_whitespace().nth(field - 3)?.parse::<f64>().ok();
    (14..=17).map(|field| ticks(field).expect("ticks")).sum::<f64>() / 100.0
}

/// The value of `what` by `time -v`, e.g. `User time (seconds): 1.48`.
fn number(printed: &str, what: &str) -> f64 {
    let line = printed.lines().find(|line| line.trim().starts_with(what)).expect(printed);
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect(line)
}

fn assert_close(found: f64, expected: f64, what: &str) {
    let apart = (found / expected - 1.0).abs();
    assert!(apart <= 0.03, "{what}: {found} and {expected} are {:.1} % apart", apart * 100.0);
}
