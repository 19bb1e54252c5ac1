//! A service between processes: the server is killed in the middle of a request, its client is told
//! so, and the next server answers.
//!
//! `cargo run -p outlive --example service` starts the servers as processes of their own. It uses
//! the domain that `OUTLIVE_DOMAIN` names, and removes what it made there.

use std::error::Error;
use std::process::{Child, Command};
use std::time::Duration;

use outlive::Domain;
use outlive::rpc::{CallError, Service};

const NAME: &str = "example.upper";
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let domain = Domain::open_default()?;
    let service = Service::<[u8], [u8]>::open_or_create(&domain, NAME)?;
    if std::env::args().nth(1).is_some() {
        return serve(&service);
    }
    let client = service.client()?;
    // A call waits for a server; otherwise it would fail at once while there is none.
    client.set_wait_for_server(true);
    let mut first = start()?;
    println!("{}", String::from_utf8_lossy(&client.call_timeout(b"hello", PATIENCE)?));
    let call = client.begin(b"die")?;
    match call.wait() {
        Err(CallError::ServerDied { begun }) => println!("the server died; begun: {begun}"),
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("it answers a request that it dies of".into()),
    }
    first.wait()?;
    let mut second = start()?;
    println!("{}", String::from_utf8_lossy(&client.call_timeout(b"again", PATIENCE)?));
    second.kill()?;
    second.wait()?;
    domain.remove(NAME)?;
    Ok(())
}

fn start() -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?).arg("serve").spawn()
}

fn serve(service: &Service<[u8], [u8]>) -> Result<(), Box<dyn Error>> {
    let mut server = service.server()?;
    loop {
        let request = server.next()?;
        if *request == *b"die" {
            // As by a kill: the request is neither answered nor dropped.
            std::process::exit(1);
        }
        let answer = request.to_ascii_uppercase();
        request.reply(&answer)?;
    }
}
