//! Serves calls that are made of a word and what belongs to it, until it is ended.
//!
//! `echo DOMAIN SERVICE`. `echo X` is answered with X, `count N` with N replies, `fail TEXT` with that
//! failure, `drop` with nothing. `mark X` is answered with X, which is counted. `hang` is answered with one reply, and no other, `hang silently` with
//! none; once its client waits no more, it counts as `cancelled`. `begun WORD` says how many were begun.
//!
//! Of requests with parts: `all` is answered with all parts, one behind the other; `each` with each, one by
//! one; `first` with the first. One whose client waits no more counts as `cancelled`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use outlive::Domain;
use outlive::rpc::{Request, Service};

type Counts = Arc<Mutex<HashMap<String, u64>>>;

fn count(counts: &Counts, word: &str) {
    if let Ok(mut counts) = counts.lock() {
        *counts.entry(word.to_owned()).or_default() += 1;
    }
}

fn answer(request: Request, counts: &Counts) -> Result<(), Box<dyn std::error::Error>> {
    let at = request.iter().position(|byte| *byte == b' ').unwrap_or(request.len());
    let word = String::from_utf8_lossy(&request[..at]).into_owned();
    let rest = request.get(at + 1..).unwrap_or_default().to_vec();
    let text = String::from_utf8_lossy(&rest).into_owned();
    if word != "begun" {
        count(counts, &word);
    }
    match &*word {
        "echo" => request.reply(&rest)?,
        "begun" => {
            let number = counts.lock().ok().and_then(|counts| counts.get(&text).copied());
            request.reply(number.unwrap_or(0).to_string().as_bytes())?;
        }
        "mark" => {
            count(counts, &text);
            request.reply(&rest)?;
        }
        "fail" => request.fail(&text)?,
        "count" => {
            let mut stream = request.stream();
            for number in 0..text.parse::<u64>()? {
                if stream.send(number.to_string().as_bytes()).is_err() {
                    count(counts, "cancelled");
                    return Ok(());
                }
            }
            stream.finish()?;
        }
        "all" => {
            let mut all = Vec::new();
            let mut request = request;
            loop {
                match request.next_part() {
                    Ok(Some(part)) => all.extend_from_slice(&part),
                    Ok(None) => break,
                    Err(_) => {
                        count(counts, "cancelled");
                        return Ok(());
                    }
                }
            }
            request.reply(&all)?;
        }
        "each" => {
            let mut stream = request.stream();
            while let Some(part) = stream.next_part()? {
                stream.send(&part)?;
            }
            stream.finish()?;
        }
        "first" => {
            let mut request = request;
            let part = request.next_part()?.map(|part| part.to_vec()).unwrap_or_default();
            request.reply(&part)?;
        }
        "hang" => {
            let mut stream = request.stream();
            if text.is_empty() {
                stream.send(b"begun")?;
            }
            stream.request().wait_cancelled()?;
            count(counts, "cancelled");
        }
        _ => drop(request),
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [domain, service] = &args[..] else { return Err("usage: echo DOMAIN SERVICE".into()) };
    let domain = Domain::open_or_create_at(domain)?;
    let mut server = Service::<[u8]>::open_or_create(&domain, service)?.server()?;
    let counts = Counts::default();
    loop {
        let request = server.next()?;
        let counts = Arc::clone(&counts);
        std::thread::spawn(move || {
            if let Err(error) = answer(request, &counts) {
                eprintln!("echo: {error}");
            }
        });
    }
}
