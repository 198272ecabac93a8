use std::fs;

use rustix::process::{Signal, kill_process};
use thalweg_testing::TemporaryPath;

use super::unharmed;
use crate::harness::{Raw, Server, TlsClient, ticking, wait_for};

/// A folder with a certificate and its key, removed at the end.
struct Files(TemporaryPath);

impl Files {
    fn new(name: &str) -> Self {
        let files = Self(TemporaryPath::folder(name));
        files.renew();
        files
    }

    fn path(&self, name: &str) -> String {
        self.0.inside(name)
    }

    fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
        let made = made.expect("a certificate");
        fs::write(self.path("cert.pem"), made.cert.pem()).expect("write it");
        fs::write(self.path("key.pem"), made.signing_key.serialize_pem()).expect("write it");
    }

    fn serve(&self) -> Server {
        ticking(&["--tls-cert", &self.path("cert.pem"), "--tls-key", &self.path("key.pem")])
    }
}

fn certificate(server: &Server) -> Vec<u8> {
    TlsClient::connect(server.address, &["http/1.1"]).certificate()
}

fn hang_up(server: &Server) {
    kill_process(server.pid(), Signal::HUP).expect("signal the server");
}

/// Existing connections continue with the old certificate: the bystander, and a keep-alive connection.
#[test]
fn a_new_certificate_is_for_new_connections() {
    let files = Files::new("reload");
    let server = files.serve();
    let old = certificate(&server);
    unharmed(&server, || {
        let alive = TlsClient::connect(server.address, &["http/1.1"]);
        assert_eq!(alive.certificate(), old);
        let mut alive = Raw::over(alive);
        files.renew();
        assert_eq!(certificate(&server), old, "only a signal has it read");
        hang_up(&server);
        wait_for("the new certificate", || (certificate(&server) != old).then_some(()));
        alive.ask("GET", "/healthz", &[], "");
        assert_eq!(alive.answer().status, 200);
    });
}

#[test]
fn a_broken_file_keeps_the_old_certificate_and_says_so() {
    let files = Files::new("broken");
    let server = files.serve();
    let old = certificate(&server);
    unharmed(&server, || {
        for (name, content) in [("cert.pem", "no certificate"), ("key.pem", "no key")] {
            files.renew();
            fs::write(files.path(name), content).expect("write it");
            hang_up(&server);
            server.has_said(name);
            assert_eq!(certificate(&server), old);
        }
        // This key belongs to another certificate.
        files.renew();
        let key = fs::read(files.path("key.pem")).expect("read it");
        files.renew();
        fs::write(files.path("key.pem"), key).expect("write it");
        hang_up(&server);
        server.has_said("cannot be used together");
        assert_eq!(certificate(&server), old);
        fs::remove_file(files.path("cert.pem")).expect("remove it");
        hang_up(&server);
        server.has_said("No such file");
        assert_eq!(certificate(&server), old);
        files.renew();
        hang_up(&server);
        wait_for("the new certificate", || (certificate(&server) != old).then_some(()));
    });
}
