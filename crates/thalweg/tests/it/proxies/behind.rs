//! Starts proxies with their lines in `docs/how-to/proxies.md`.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::harness::{Program, skipped, wait_for};

/// The idle timeout of a proxy in these tests, in seconds. In the document it is 75.
pub(super) const PATIENCE_S: u64 = 3;

/// The server's address in the document.
const SERVER: &str = "127.0.0.1:8080";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    Nginx,
    HAProxy,
    Caddy,
    Apache,
    Varnish,
}

/// A running proxy. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Behind {
    pub(crate) address: SocketAddr,
    program: Program,
}

impl Behind {
    /// Starts a proxy in front of the server at `server`. Returns `None`, and notes that, if the program is not installed.
    pub(crate) fn start(kind: ProxyKind, server: SocketAddr) -> Option<Self> {
        Self::start_changed(kind, server, &[])
    }

    /// Starts it with other lines in place of some: each pair is a part of the configuration and its replacement.
    pub(crate) fn start_changed(
        kind: ProxyKind,
        server: SocketAddr,
        changes: &[(&str, &str)],
    ) -> Option<Self> {
        Self::start_by(kind, |program, address| kind.command(program, address, server, changes))
    }

    /// Starts a proxy that listens at the address that the command gets. Returns `None` likewise.
    pub(crate) fn start_by(
        kind: ProxyKind,
        command: impl Fn(&Path, SocketAddr) -> Command,
    ) -> Option<Self> {
        let Some(program) = kind.program() else {
            skipped(&format!("there is no {kind:?} on this machine"));
            return None;
        };
        // Another process may take a free port before the proxy does.
        (0..5)
            .find_map(|_| {
                let free =
                    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
                let address = free.expect("a free port");
                let mut program = Program::start(&mut command(&program, address));
                let listens = wait_for("the proxy to listen", || {
                    let listens = TcpStream::connect(address).is_ok();
                    (listens || program.has_ended()).then_some(listens)
                });
                if !listens {
                    eprintln!("{kind:?} ended: {}", program.said());
                }
                listens.then_some(Self { address, program })
            })
            .or_else(|| panic!("{kind:?} does not start"))
    }
}

impl Drop for Behind {
    /// SIGTERM, because some proxies have child processes.
    fn drop(&mut self) {
        self.program.interrupt();
        // A second panic would end all tests.
        if !thread::panicking() {
            wait_for("the proxy to end", || self.program.has_ended().then_some(()));
        }
    }
}

impl ProxyKind {
    /// Returns the path of the program, which may not be in the `PATH`.
    fn program(self) -> Option<PathBuf> {
        let name = match self {
            Self::Nginx => "nginx",
            Self::HAProxy => "haproxy",
            Self::Caddy => "caddy",
            Self::Apache => "apache2",
            Self::Varnish => "varnishd",
        };
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&paths).chain(["/usr/sbin".into()]);
        folders.map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    fn lines(self, address: SocketAddr, server: SocketAddr) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/proxies.md");
        let document = fs::read_to_string(path).expect("docs/how-to/proxies.md");
        let language = match self {
            Self::Nginx => "nginx",
            Self::HAProxy => "haproxy",
            Self::Caddy => "caddy",
            Self::Apache => "apache",
            Self::Varnish => "vcl",
        };
        let (_, block) = document.split_once(&format!("\n```{language}\n")).expect("its block");
        let (block, _) = block.split_once("\n```").expect("the block's end");
        let (port, server_port) = (address.port(), server.port());
        let patience = PATIENCE_S.to_string();
        let changes = match self {
            Self::Nginx => vec![("listen 80;", format!("listen {address};"))],
            Self::HAProxy => vec![("bind :80\n", format!("bind {address}\n"))],
            Self::Caddy => vec![("live.example {", format!("http://:{port} {{\nbind 127.0.0.1"))],
            Self::Apache => vec![("<VirtualHost *:80>", format!("<VirtualHost *:{port}>"))],
            Self::Varnish => vec![("\"8080\"", format!("\"{server_port}\""))],
        };
        let mut lines = block.to_owned() + "\n";
        // Times are replaced first: a port may look like one.
        let all = [("75", patience), (SERVER, server.to_string())].into_iter().chain(changes);
        for (from, to) in all {
            let is_elsewhere =
                matches!((self, from), (Self::Varnish, SERVER) | (Self::Caddy, "75"));
            assert!(is_elsewhere || lines.contains(from), "{self:?} has no {from}:\n{block}");
            lines = lines.replace(from, &to);
        }
        lines
    }

    /// Starts it in the foreground, with a separate folder for its files.
    fn command(
        self,
        program: &Path,
        address: SocketAddr,
        server: SocketAddr,
        changes: &[(&str, &str)],
    ) -> Command {
        let port = address.port();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{self:?}-{port}"));
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
            _ => fs::create_dir_all(&folder).expect("a folder"),
        }
        let at = folder.display();
        let mut lines = self.lines(address, server);
        for (from, to) in changes {
            assert!(lines.contains(from), "{self:?} has no {from}:\n{lines}");
            lines = lines.replace(from, to);
        }
        let lines = match self {
            Self::Nginx => format!(
                "daemon off; master_process off; pid {at}/pid; error_log stderr; events {{}}\n\
                 http {{ access_log off; client_body_temp_path {at}/body; \
                 proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi; \
                 uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;\n{lines}}}\n"
            ),
            Self::Apache => {
                let modules =
                    ["mpm_event", "authz_core", "alias", "headers", "proxy", "proxy_http"];
                let load = |name| {
                    format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
                };
                let modules: String = modules.map(load).concat();
                // As root, nginx would serve as another user.
                format!(
                    "ServerRoot {at}\nServerName live.example\nPidFile {at}/pid\n\
                     ErrorLog /dev/stderr\nMutex file:{at} default\nListen {address}\n\
                     User www-data\nGroup www-data\n{modules}{lines}"
                )
            }
            Self::Caddy => format!("{{\nadmin off\nauto_https off\n}}\n{lines}"),
            Self::HAProxy | Self::Varnish => lines,
        };
        let file = folder.join("configuration");
        fs::write(&file, lines).expect("its configuration");
        let mut command = Command::new(program);
        match self {
            Self::Nginx => command.arg("-p").arg(&folder).arg("-c").arg(file),
            Self::HAProxy => command.arg("-db").arg("-f").arg(file),
            Self::Caddy => command
                .args(["run", "--adapter", "caddyfile", "--config"])
                .arg(file)
                .env("HOME", &folder)
                .env("XDG_DATA_HOME", &folder)
                .env("XDG_CONFIG_HOME", &folder),
            Self::Apache => command.arg("-DFOREGROUND").arg("-f").arg(file),
            Self::Varnish => command
                .args(["-F", "-j", "none", "-s", "malloc,16m"])
                .args(["-p", &format!("pipe_timeout={PATIENCE_S}")])
                .args(["-a", &address.to_string()])
                .arg("-n")
                .arg(folder.join("varnish"))
                .arg("-f")
                .arg(file),
        };
        command
    }
}
