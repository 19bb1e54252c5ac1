//! TLS and users, set as the how-to says: a gateway that is let in gets messages, another one gets none and says
//! that it is alone.

use std::fs;
use std::process::{Command, Stdio};

use outlive_testnet::{Child, Folder, free_port};

use crate::support::{LONG, Machine, through, topic};

fn openssl(folder: &Folder, words: &str) -> bool {
    let mut command = Command::new("openssl");
    command.current_dir(folder.path()).args(words.split(' '));
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// An authority, NAME.pem, and a certificate of it for localhost, NAME-server.pem; whether there is a
/// program that makes them.
fn certificates(folder: &Folder, name: &str) -> bool {
    let new = "-newkey rsa:2048 -nodes";
    let ca = format!("req -x509 {new} -keyout {name}.key -out {name}.pem -days 2 -subj /CN={name}");
    let request =
        format!("req {new} -keyout {name}-server.key -out {name}.csr -subj /CN=localhost");
    let extension = "subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n";
    fs::write(folder.join(format!("{name}.ext")), extension).expect("written");
    let sign = format!(
        "x509 -req -in {name}.csr -CA {name}.pem -CAkey {name}.key -CAcreateserial \
         -out {name}-server.pem -days 2 -extfile {name}.ext"
    );
    [&ca, &request, &sign].into_iter().all(|words| openssl(folder, words))
}

/// A machine whose gateway, when it is started, has that configuration of zenoh's.
fn machine(folder: &Folder, what: &str, zenoh: &str, args: &[&str]) -> Machine {
    let path = folder.join(format!("{what}.json5"));
    fs::write(&path, zenoh.replace("DIR", &folder.path().display().to_string())).expect("written");
    let path = path.display().to_string();
    Machine::new(what, &[&["--zenoh", &path], args].concat())
}

/// Sees that the first machine's messages reach the second one.
fn passes(from: &Machine, mut to: Machine) {
    to.start();
    let (publisher, mut subscriber) = through(from, &to, 8);
    publisher.publish(&7).expect("room");
    let sample = subscriber.recv_timeout(LONG).expect("received").expect("in time");
    assert_eq!(*sample, 7);
}

/// Sees that the second one's gateway is let in nowhere, and says so.
fn is_kept_out(from: &Machine, mut to: Machine) {
    let topic = topic(from, "n", 8);
    let publisher = topic.publisher().expect("publishes");
    publisher.publish(&7).expect("room");
    // It does not wait until it acts: as a client, it never does.
    to.gateway = Some(Child::start(to.command()).expect("starts"));
    to.expect("alone", 1);
    assert!(to.events("came").is_empty(), "{}", to.log());
}

#[test]
fn tls_lets_in_whose_authority_is_trusted() {
    let folder = Folder::new("tls");
    if !["own", "other"].into_iter().all(|name| certificates(&folder, name)) {
        eprintln!("skipped: openssl makes no certificates here");
        return;
    }
    let endpoint = format!("tls/localhost:{}", free_port());
    let server = "{ transport: { link: { tls: { listen_certificate: \"DIR/own-server.pem\", \
                  listen_private_key: \"DIR/own-server.key\" } } } }";
    let mut a = machine(&folder, "a", server, &["--listen", &endpoint, "--allow-out", "n"]);
    a.start();
    let trusting = |name: &str| {
        let text = "{ mode: \"client\", transport: { link: { tls: { root_ca_certificate: \"DIR/CA.pem\" } } } }";
        machine(
            &folder,
            name,
            &text.replace("CA", name),
            &["--connect", &endpoint, "--allow-in", "n"],
        )
    };
    // It believes no certificate but those of another authority.
    is_kept_out(&a, trusting("other"));
    passes(&a, trusting("own"));
}

#[test]
fn users_are_let_in_with_their_passwords() {
    let folder = Folder::new("users");
    fs::write(folder.join("users.txt"), "laptop:secret\n").expect("written");
    let endpoint = format!("tcp/127.0.0.1:{}", free_port());
    let server = "{ transport: { auth: { usrpwd: { dictionary_file: \"DIR/users.txt\" } } } }";
    let mut a = machine(&folder, "a", server, &["--listen", &endpoint, "--allow-out", "n"]);
    a.start();
    let user = |what: &str, user: &str, password: &str| {
        let text = format!(
            "{{ mode: \"client\", transport: {{ auth: {{ usrpwd: {{ user: \"{user}\", password: \"{password}\" }} }} }} }}"
        );
        machine(&folder, what, &text, &["--connect", &endpoint, "--allow-in", "n"])
    };
    is_kept_out(&a, user("wrong", "laptop", "guessed"));
    is_kept_out(&a, user("nobody", "someone", "secret"));
    let without = ["--mode", "client", "--connect", &endpoint, "--allow-in", "n"];
    is_kept_out(&a, Machine::new("without", &without));
    passes(&a, user("right", "laptop", "secret"));
}
