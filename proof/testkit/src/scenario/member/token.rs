//! Orders about tokens: claim them in threads, ask which ones are alive, wait for an end, look
//! whether slots were lost.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread::JoinHandle;

use outlive::wait::WaitSet;
use outlive::{Domain, TokenInfo, TokenKind};

/// A thread with a token that ends when told.
struct Claimer {
    tid: u32,
    end: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

/// The threads that a survivor keeps.
#[derive(Default)]
pub struct Threads {
    claimers: BTreeMap<u32, Claimer>,
}

impl Claimer {
    fn start(domain: &Domain) -> Result<Claimer, String> {
        let (end, told_to_end) = mpsc::channel();
        let (report, claimed) = mpsc::channel();
        let domain = domain.clone();
        let thread = std::thread::spawn(move || {
            let _ = report.send(
                domain.token().map(|_| rustix::thread::gettid().as_raw_nonzero().get() as u32),
            );
            let _ = told_to_end.recv();
        });
        let tid = claimed
            .recv()
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        Ok(Claimer { tid, end, thread })
    }

    fn end(self) -> Result<(), String> {
        drop(self.end);
        self.thread.join().map_err(|_| "a claiming thread panicked".to_owned())
    }
}

fn of(tokens: &[TokenInfo], kind: TokenKind, number: u32) -> impl Iterator<Item = &TokenInfo> {
    tokens.iter().filter(move |info| {
        info.kind == kind && number == if kind == TokenKind::Thread { info.tid } else { info.pid }
    })
}

fn kind(word: &str) -> Result<TokenKind, String> {
    match word {
        "thread" => Ok(TokenKind::Thread),
        "process" => Ok(TokenKind::Process),
        _ => Err(format!("`{word}` is neither thread nor process")),
    }
}

impl Threads {
    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, domain: &Domain, order: &[&str]) -> Result<String, String> {
        match order {
            ["claim"] => domain.token().map(|_| String::new()).map_err(|error| error.to_string()),
            ["claim-process"] => {
                domain.process_token().map(|_| String::new()).map_err(|error| error.to_string())
            }
            // A thread that claims a token and stays. Answers its number.
            ["start-thread"] => {
                let claimer = Claimer::start(domain)?;
                let tid = claimer.tid;
                self.claimers.insert(tid, claimer);
                Ok(tid.to_string())
            }
            // So many threads that have claimed a token and stay, with those that there are.
            ["keep-threads", count] => {
                while self.claimers.len() < super::number(count)? {
                    let claimer = Claimer::start(domain)?;
                    self.claimers.insert(claimer.tid, claimer);
                }
                Ok(String::new())
            }
            ["end-thread", tid] => {
                let claimer = self.claimers.remove(&super::number(tid)?).ok_or("no such thread")?;
                claimer.end().map(|()| String::new())
            }
            // Sleeps until the newest token of that thread or process has ended.
            ["wait-dead", what, number] => {
                let tokens = domain.tokens();
                let id = of(&tokens, kind(what)?, super::number(number)?)
                    .min_by_key(|info| info.age)
                    .ok_or_else(|| format!("{what} {number} has no token"))?
                    .id;
                domain.peer(id).wait_dead().map_err(|error| error.to_string())?;
                Ok("ended".to_owned())
            }
            // The same in a wait set that is told of the ends of all others, too.
            ["wait-dead-in-set", what, number] => {
                let tokens = domain.tokens();
                let id = of(&tokens, kind(what)?, super::number(number)?)
                    .min_by_key(|info| info.age)
                    .ok_or_else(|| format!("{what} {number} has no token"))?
                    .id;
                let own = std::process::id();
                let mut set = WaitSet::new(domain);
                set.set_wait_strategy(outlive::WaitStrategy::Block);
                let wanted = set.add(&domain.peer(id)).map_err(|error| error.to_string())?;
                for other in
                    tokens.iter().filter(|info| info.alive && info.pid != own && info.id != id)
                {
                    set.add(&domain.peer(other.id)).map_err(|error| error.to_string())?;
                }
                loop {
                    let ready = set.wait().map_err(|error| error.to_string())?;
                    let ended: Vec<_> = ready.map(|(key, _)| key).collect();
                    if ended.contains(&wanted) {
                        return Ok("ended".to_owned());
                    }
                    for key in ended {
                        set.remove(key);
                    }
                }
            }
            // How many living tokens it has.
            ["alive", what, number] => {
                let tokens = domain.tokens();
                let alive = of(&tokens, kind(what)?, super::number(number)?)
                    .filter(|info| info.alive)
                    .count();
                Ok(alive.to_string())
            }
            // How many tokens of its main thread, or of the process as a whole, are said to be
            // dead.
            ["called-dead", pid] => {
                let pid: u32 = super::number(pid)?;
                let lasting = |info: &&TokenInfo| {
                    info.pid == pid && (info.tid == pid || info.kind == TokenKind::Process)
                };
                Ok(domain
                    .tokens()
                    .iter()
                    .filter(lasting)
                    .filter(|info| !info.alive)
                    .count()
                    .to_string())
            }
            // How many living tokens threads and processes of that process have.
            ["alive-of", pid] => {
                let pid: u32 = super::number(pid)?;
                Ok(domain
                    .tokens()
                    .iter()
                    .filter(|info| info.pid == pid && info.alive)
                    .count()
                    .to_string())
            }
            // Claims and ends, one after the other: afterwards slots have dead former owners.
            ["wear", count] => {
                for _ in 0..super::number::<u32>(count)? {
                    Claimer::start(domain)?.end()?;
                }
                Ok(String::new())
            }
            // Claims every slot that is not alive, and keeps it.
            ["take-all"] => {
                domain.token().map_err(|error| error.to_string())?;
                let alive = domain.tokens().iter().filter(|info| info.alive).count() as u32;
                for _ in alive..domain.stats().slots {
                    let claimer = Claimer::start(domain)?;
                    self.claimers.insert(claimer.tid, claimer);
                }
                Ok(String::new())
            }
            // Claims every slot that is not alive. Answers the numbers of slots before and after:
            // more means that it could not claim some of them.
            ["exhaust"] => {
                domain.token().map_err(|error| error.to_string())?;
                let before = domain.stats().slots;
                let alive = domain.tokens().iter().filter(|info| info.alive).count() as u32;
                let all = (alive..before)
                    .map(|_| Claimer::start(domain))
                    .collect::<Result<Vec<_>, _>>()?;
                let after = domain.stats().slots;
                for claimer in all {
                    claimer.end()?;
                }
                Ok(format!("{before} {after}"))
            }
            _ => Err("unknown order".to_owned()),
        }
    }
}
