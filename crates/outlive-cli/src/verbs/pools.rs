//! `outlive pools`: what is in pools, size by size, and which processes have it.

use clap::{Args, ValueEnum};
use outlive::pool::{Held, HolderUsage, MODES, Modes, SizeUsage, Usage};
use outlive::{Detail, Entry, Error};
use serde::Serialize;

use crate::cli::Common;
use crate::exit::{Code, Failure, code_of};
use crate::output::{self, bytes, count, counted, talk};

/// Show what is in pools, size by size, and which processes have it
///
/// Each line is about the objects of one size. ALLOC is how many exist. Of these, USED are in use
/// by processes, CACHE lie in caches of their threads, OFFER are handed over and not claimed yet,
/// SHARE are held by several processes, and FREE are free. FAIL counts how often there was no room
/// for one. BY counts the processes that have any, dead ones included until their objects are
/// collected.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:\n  \
    outlive pool list\n  \
    outlive pool list frames --by holder\n  \
    outlive pool list frames --modes tag,caller; outlive pool list frames --by caller\n  \
    outlive pool list --json | jq '.pools[] | select(.sum.failed > 0) | .name'")]
pub struct PoolsArgs {
    /// Which pools; all of the domain's when none is named
    names: Vec<String>,
    /// What a line is about
    #[arg(long, value_enum, default_value_t = By::Size)]
    by: By,
    /// Turn these debug modes on in the pools named, and all others off
    ///
    /// A list, as 'tag,poison', or 'none'. For all processes that use the pool: each allocation
    /// from now on is made in these modes.
    #[arg(long, value_name = "MODES", requires = "names", long_help = modes_help())]
    modes: Option<Modes>,
}

/// Returns the library's table of modes.
fn modes_help() -> String {
    let mut text = "Turn these debug modes on in the pools named, and all others off\n\n\
        A list, as 'tag,poison', or 'none'. It holds for all processes that use the pool, and for what they take from now on:\n"
        .to_owned();
    for mode in &MODES {
        text.push_str(&format!("\n- {}: {}", mode.name, mode.finds));
    }
    text
}

/// What a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Objects of one size
    Size,
    /// A process, living or dead
    Holder,
    /// A place in a program that took objects which are in use or handed over still; needs the mode
    /// 'caller' or 'tag'
    Caller,
}

#[derive(Serialize)]
struct Report {
    domain: String,
    pools: Vec<Pool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<Failed>,
}

/// A pool that could not be looked at.
#[derive(Serialize)]
struct Failed {
    name: String,
    why: String,
}

#[derive(Serialize)]
struct Pool {
    name: String,
    bytes: u64,
    max_bytes: u64,
    /// Of objects that are handed over and not claimed.
    unclaimed_bytes: u64,
    sizes: Vec<Size>,
    sum: Size,
    holders: Vec<Holder>,
    modes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    callers: Option<Vec<Place>>,
}

/// Where objects were taken that are not free again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Place {
    objects: u64,
    bytes: u64,
    /// Unknown of what was taken without the mode for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    program: String,
    place: String,
}

#[derive(Serialize)]
struct Size {
    /// Of the sum there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    allocated: u64,
    used: u64,
    cached: u64,
    free: u64,
    offered: u64,
    shared: u64,
    moving: u64,
    failed: u64,
    holders: u64,
    bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Holder {
    pid: u32,
    program: String,
    alive: bool,
    objects: u64,
    cached: u64,
    bytes: u64,
}

impl Size {
    fn new(of: &SizeUsage, size: Option<u64>) -> Size {
        Size {
            size,
            allocated: of.total,
            used: of.used,
            cached: of.cached,
            free: of.free,
            offered: of.offered,
            shared: of.shared,
            moving: of.moving,
            failed: of.failed,
            holders: of.holders,
            bytes: of.bytes,
        }
    }

    fn row(&self) -> Vec<String> {
        let size = match self.size {
            None => "sum".to_owned(),
            // It could not be read, so its length is not known.
            Some(0) => "> 1 MiB".to_owned(),
            Some(size) => bytes(size),
        };
        let figures = [
            self.allocated,
            self.used,
            self.cached,
            self.offered,
            self.shared,
            self.free,
            self.failed,
            self.holders,
        ];
        [size].into_iter().chain(figures.map(count)).chain([bytes(self.bytes)]).collect()
    }
}

/// A process's tokens and its threads' are one.
fn holders(all: &[HolderUsage]) -> Vec<Holder> {
    let mut holders: Vec<Holder> = Vec::new();
    for HolderUsage { who, objects, cached, bytes, .. } in all {
        let is_it = |one: &&mut Holder| {
            (one.pid, one.alive, one.program.as_str()) == (who.pid, who.alive, who.program.as_str())
        };
        match holders.iter_mut().find(is_it) {
            Some(one) => {
                one.objects += objects;
                one.cached += cached;
                one.bytes += bytes;
            }
            None => holders.push(Holder {
                pid: who.pid,
                program: who.program.clone(),
                alive: who.alive,
                objects: *objects,
                cached: *cached,
                bytes: *bytes,
            }),
        }
    }
    holders.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    holders
}

impl Pool {
    fn new(name: &str, usage: &Usage) -> Pool {
        Pool {
            name: name.to_owned(),
            bytes: usage.bytes,
            max_bytes: usage.max_bytes,
            unclaimed_bytes: usage.unclaimed,
            sizes: usage.sizes.iter().map(|size| Size::new(size, Some(size.size))).collect(),
            sum: Size::new(&usage.sum, None),
            holders: holders(&usage.holders),
            modes: usage.modes.to_string(),
            callers: None,
        }
    }

    fn told(&self, by: By) -> String {
        let mut text = format!(
            "{}: {} of at most {}, {}",
            self.name.escape_debug(),
            bytes(self.bytes),
            bytes(self.max_bytes),
            counted(self.sum.allocated, "object"),
        );
        if self.sum.moving > 0 {
            text.push_str(&format!(", {} in a thread's hands", count(self.sum.moving)));
        }
        if self.modes != "none" {
            text.push_str(&format!(", debug modes {}", self.modes));
        }
        text.push('\n');
        match by {
            By::Size if self.sizes.is_empty() => {}
            By::Size => {
                let headings = [
                    "SIZE", "ALLOC", "USED", "CACHE", "OFFER", "SHARE", "FREE", "FAIL", "BY",
                    "BYTES",
                ];
                let right: Vec<usize> = (0..headings.len()).collect();
                let rows: Vec<Vec<String>> =
                    self.sizes.iter().chain([&self.sum]).map(Size::row).collect();
                text.push_str(&output::table(&headings, &right, &rows));
            }
            By::Holder => {
                let mut rows: Vec<Vec<String>> = self.holders.iter().map(Holder::row).collect();
                if self.unclaimed_bytes > 0 {
                    let (objects, all) = (count(self.sum.offered), bytes(self.unclaimed_bytes));
                    rows.push(vec![
                        "-".to_owned(),
                        objects,
                        String::new(),
                        all,
                        "handed over, not claimed".to_owned(),
                    ]);
                }
                if !rows.is_empty() {
                    let headings = ["PID", "OBJECTS", "CACHED", "BYTES", "PROGRAM"];
                    text.push_str(&output::table(&headings, &[0, 1, 2, 3], &rows));
                }
            }
            By::Caller => {
                let rows: Vec<Vec<String>> =
                    self.callers.iter().flatten().map(Place::row).collect();
                if !rows.is_empty() {
                    text.push_str(&output::table(
                        &["OBJECTS", "BYTES", "PID", "PROGRAM", "TAKEN AT"],
                        &[0, 1, 2],
                        &rows,
                    ));
                }
            }
        }
        text
    }
}

impl Holder {
    fn row(&self) -> Vec<String> {
        let pid = if self.pid == 0 { "?".to_owned() } else { self.pid.to_string() };
        let program = if self.program.is_empty() { "?" } else { &self.program };
        let dead = if self.alive { "" } else { ", dead" };
        vec![
            pid,
            count(self.objects),
            count(self.cached),
            bytes(self.bytes),
            format!("{}{dead}", program.escape_debug()),
        ]
    }
}

impl Place {
    fn row(&self) -> Vec<String> {
        let pid = self.pid.map_or_else(|| "?".to_owned(), |pid| pid.to_string());
        let program = self.program.escape_debug().to_string();
        vec![
            count(self.objects),
            bytes(self.bytes),
            pid,
            program,
            self.place.escape_debug().to_string(),
        ]
    }
}

/// Returns what is held, by the place where it was taken; most bytes first.
fn places(held: &[Held]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for Held { bytes, caller, .. } in held {
        let (pid, program, place) = match caller {
            Some(caller) => (
                Some(caller.pid),
                caller.program.clone(),
                format!("{}:{}", caller.file, caller.line),
            ),
            None => (
                None,
                "?".to_owned(),
                "not noted: the modes 'caller' and 'tag' were off".to_owned(),
            ),
        };
        let is_it =
            |one: &&mut Place| (one.pid, &one.program, &one.place) == (pid, &program, &place);
        match places.iter_mut().find(is_it) {
            Some(one) => (one.objects, one.bytes) = (one.objects + 1, one.bytes + bytes),
            None => places.push(Place { objects: 1, bytes: *bytes, pid, program, place }),
        }
    }
    places.sort_by_key(|one| std::cmp::Reverse(one.bytes));
    places
}

/// Pools, and what could not be looked at.
type Chosen = (Vec<Pool>, Vec<(String, Error)>);

/// Returns the pools that were asked for.
fn chosen(args: &PoolsArgs, domain: &outlive::Domain) -> Result<Chosen, Failure> {
    let (mut pools, mut failed) = (Vec::new(), Vec::new());
    let named = !args.names.is_empty();
    let entries: Vec<Entry> = if named {
        args.names.iter().map(|name| domain.entry(name)).collect::<Result<_, Error>>()?
    } else {
        domain.entries()?
    };
    for entry in entries {
        match (&entry.detail, &entry.kind) {
            (Detail::Pool(usage), _) => {
                let mut pool = Pool::new(&entry.name, usage);
                if args.modes.is_some() || args.by == By::Caller {
                    let opened = outlive::pool::Pool::open(domain, &entry.name)?;
                    if let Some(modes) = args.modes {
                        opened.set_modes(modes);
                        pool.modes = opened.modes().to_string();
                    }
                    pool.callers = (args.by == By::Caller)
                        .then(|| opened.held())
                        .transpose()?
                        .as_deref()
                        .map(places);
                }
                pools.push(pool);
            }
            (_, Ok(kind)) if named => {
                let message = format!(
                    "'{}' is no pool but a {kind}; 'outlive ls' lists what there is",
                    entry.name
                );
                return Err(Failure::new(Code::Mismatch, message));
            }
            // A file that is not Outlive's at all is no pool that the list lacks.
            (_, Err(Error::NotASegment { .. } | Error::OtherVersion { .. })) if !named => {}
            (_, Err(error)) => failed.push((entry.name, error.clone())),
            _ => {}
        }
    }
    Ok((pools, failed))
}

/// Runs the verb.
pub fn run(args: &PoolsArgs, common: &Common) -> Result<(), Failure> {
    let path = common.domain.path().display().to_string();
    let domain =
        if args.names.is_empty() { common.domain.look()? } else { Some(common.domain.existing()?) };
    let (pools, failed) = match &domain {
        Some(domain) => chosen(args, domain)?,
        None => (Vec::new(), Vec::new()),
    };
    let code = failed.first().map(|(_, why)| code_of(why));
    if common.json {
        let failed = failed
            .iter()
            .map(|(name, why)| Failed { name: name.clone(), why: why.to_string() })
            .collect();
        output::print_json(&Report { domain: path, pools, failed })?;
    } else {
        for (name, why) in &failed {
            talk(format_args!("'{}' was left out: {why}", name.escape_debug()));
        }
        if pools.is_empty() && failed.is_empty() {
            talk(format_args!("no pools in {path}"));
        }
        let tables: Vec<String> = pools.iter().map(|pool| pool.told(args.by)).collect();
        output::print(tables.join("\n"))?;
    }
    code.map_or(Ok(()), |code| Err(Failure::Silent(code as u8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_into_eighty_columns() {
        let size = |size, figure| Size {
            size,
            allocated: figure,
            used: figure,
            cached: 12,
            free: figure / 2,
            offered: 0,
            shared: 0,
            moving: 1,
            failed: 3,
            holders: 4,
            bytes: figure * 1000,
        };
        let holder = Holder {
            pid: 4_194_303,
            program: "a\u{1b}[31m program".to_owned(),
            alive: false,
            objects: 12_345,
            cached: 99,
            bytes: 1_u64 << 33,
        };
        let pool = Pool {
            name: "frames\n".to_owned(),
            bytes: 700 << 20,
            max_bytes: 8 << 30,
            unclaimed_bytes: 5,
            sizes: vec![size(Some(64), 32_768), size(Some(917_504), 7), size(Some(0), 0)],
            sum: size(None, 32_775),
            holders: vec![holder],
            modes: "none".to_owned(),
            callers: None,
        };
        for by in [By::Size, By::Holder] {
            let text = pool.told(by);
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(text.starts_with(
                "frames\\n: 700.0 MiB of at most 8.0 GiB, 32,775 objects, 1 in a thread's hands\n"
            ));
            assert!(!text.contains('\u{1b}'), "{text}");
        }
        assert!(
            pool.told(By::Holder).contains("12,345      99  8.0 GiB  a\\u{1b}[31m program, dead\n")
        );
        assert!(
            pool.told(By::Size).lines().nth(4).is_some_and(|line| line.starts_with("  > 1 MiB"))
        );
    }
}
