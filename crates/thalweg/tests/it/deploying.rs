//! The files in `deploy/` for other programs. These programs check them.

use std::{
    env,
    io::ErrorKind,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use rustix::process::{Signal, kill_process};
use thalweg_testing::skipped;

use crate::harness::Server;

fn deploy(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(path)
}

/// Runs a program, if this machine has it.
fn said_by(command: &mut Command) -> Option<Output> {
    match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped(&format!("there is no {} on this machine", command.get_program().display()));
            None
        }
        output => Some(output.expect("a program that runs")),
    }
}

/// Runs Helm, if `make helm` has installed it.
fn helm(words: &[&str]) -> Option<String> {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/helm/helm");
    let found = if installed.is_file() { installed } else { "helm".into() };
    let program = env::var_os("THALWEG_HELM").map_or(found, PathBuf::from);
    let output = said_by(Command::new(program).args(words).arg(deploy("helm/thalweg")))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    Some(said)
}

const EVERYTHING: [&str; 22] = [
    "--set",
    "config=heartbeat = \"10s\"\nhistory = 100\n",
    "--set",
    "extraEnv[0].name=A,extraEnv[0].value=b",
    "--set",
    "extraVolumes[0].name=tls,extraVolumes[0].secret.secretName=cert",
    "--set",
    "extraVolumeMounts[0].name=tls,extraVolumeMounts[0].mountPath=/etc/tls",
    "--set",
    "ingress.enabled=true,ingress.host=push.example,ingress.tlsSecret=push",
    "--set",
    "nats.credentials.secret=creds,nats.ca.secret=ca",
    "--set",
    "ingress.className=nginx",
    "--set",
    "sources[0]=cars=cars\\,cars=10",
    "--set",
    "data.enabled=true,data.storageClass=fast,data.stores[0]=jobs/**\\,age=7d,metricsPort=9090",
    "--set-json",
    "ingress.annotations={\"a/b\":\"75\"}",
    "--namespace",
    "push",
];

#[test]
fn the_chart_creates_valid_kubernetes_objects() {
    if helm(&["lint", "--strict"]).is_none() {
        return;
    }
    let plain = helm(&["template", "push"]).expect("it is there");
    assert!(!plain.contains("kind: Ingress") && !plain.contains("kind: ConfigMap"), "{plain}");
    assert!(!plain.contains("volumes:") && !plain.contains("volumeMounts:"), "{plain}");
    assert!(!plain.contains("volumeClaimTemplates:") && !plain.contains("admin-listen"), "{plain}");
    let alone =
        ["template", "push", "--set", "replicas=1,data.enabled=true", "--set-json", "nats.urls=[]"];
    let alone = helm(&alone).expect("it is there");
    assert!(
        !alone.contains("--nats=")
            && !alone.contains("--stream=")
            && alone.contains("volumeMounts:"),
        "{alone}"
    );
    assert!(!alone.contains(" volumes:"), "{alone}");
    let whole = helm(&[&["template", "push"][..], &EVERYTHING].concat()).expect("it is there");
    for part in [
        "kind: Ingress",
        "host: \"push.example\"",
        "secretName: \"push\"",
        "ingressClassName: \"nginx\"",
        "a/b: \"75\"",
        "kind: ConfigMap",
        "  heartbeat = \"10s\"",
        "- --config=/etc/thalweg/thalweg.toml",
        "checksum/config: ",
        "- name: A\n              value: b",
        "- {name: config, mountPath: /etc/thalweg, readOnly: true}",
        "- --data=/var/lib/thalweg/data",
        "- \"--store=jobs/**,age=7d\"",
        "- \"--admin-listen=0.0.0.0:9090\"",
        "- {name: metrics, containerPort: 9090}",
        "- {name: data, mountPath: /var/lib/thalweg}",
        "storageClassName: \"fast\"",
        "resources: {requests: {storage: 10Gi}}",
        "- mountPath: /etc/tls\n              name: tls",
        "secretName: cert",
        "secret: {secretName: \"creds\"}",
    ] {
        assert!(whole.contains(part), "{part:?} in {whole}");
    }
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("units");
    std::fs::create_dir_all(&folder).expect("make a folder");
    let mut units = Vec::new();
    for (name, instance) in [
        ("thalweg@.service", "thalweg@node1.service"),
        ("nats-server.service", "nats-server.service"),
    ] {
        let text = std::fs::read_to_string(deploy("systemd").join(name)).expect("a unit");
        // The programs are not installed here.
        let text = text.replace("/usr/local/bin/thalweg", "/bin/true");
        let text = text.replace("/usr/local/bin/nats-server", "/bin/true");
        let path = folder.join(instance);
        std::fs::write(&path, text).expect("write a unit");
        units.push(path);
    }
    let mut command = Command::new("systemd-analyze");
    command.arg("verify").args(&units);
    let Some(output) = said_by(&mut command) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    let own: Vec<&str> = said.lines().filter(|line| line.contains("/units/")).collect();
    assert!(output.status.success() && own.is_empty(), "{said}");
}

#[test]
fn systemd_is_told_when_it_serves_and_when_it_ends() {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("notify-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let next = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command.arg("serve").env("NOTIFY_SOCKET", &path);
    let mut server = Server::start_by(&mut command, &["--shutdown-delay", "50ms"], Stdio::piped());
    assert_eq!(next(), "READY=1\n");
    kill_process(server.pid(), Signal::HUP).expect("signal the server");
    let reloading = next();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(next(), "READY=1\n");
    server.terminate();
    assert_eq!(next(), "STOPPING=1\n");
    assert!(server.exit().success());
    let _ = std::fs::remove_file(&path);
}
