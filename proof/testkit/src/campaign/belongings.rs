//! What a victim's process holds, from outside: descriptors, mappings, anonymous memory, threads.
//! Not the C library's heap: that grows and does not say for what.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;

use crate::failure::Failure;
use crate::world::{World, text};

/// The one sort of threads, that of memory, and what the sorts of mappings and descriptors begin with.
const THREAD: &str = "thread";
const PAGE: &str = "page of anonymous memory";
const MAPPING: &str = "mapping of ";
const DESCRIPTOR: &str = "descriptor of ";

/// Pages that a process and a thread make for themselves at the first use and keep: its identity
/// (`sys/identity.rs`) and the thread's tokens (`liveness/thread.rs`). An operation that fails
/// after that has made nothing else that stays: no registry, keeper or ring.
const PAGES_MADE_ONCE: usize = 2;

/// How many things of each sort a process holds. Names have `#` for their numbers, and paths begin
/// at the world's folder: so lives of several rounds and worlds can be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Belongings(BTreeMap<String, usize>);

impl Belongings {
    /// Of that process, in that world; nothing when it is gone.
    pub(super) fn of(pid: u32, world: &World) -> Result<Belongings, Failure> {
        let folder = text(world.folder())?;
        let domain = world.domain();
        let domain = text(&domain)?;
        let mut all = BTreeMap::new();
        let mut add =
            |sort: &str, many: usize| *all.entry(numberless(sort, folder)).or_default() += many;
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            if let Ok(file) = fs::read_link(entry.path()) {
                add(&format!("{DESCRIPTOR}{}", file.to_string_lossy()), 1);
            }
        }
        for line in fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default().lines() {
            let mut words = line.splitn(6, ' ');
            let (range, offset, path) =
                (words.next(), words.nth(1), words.nth(2).unwrap_or_default().trim_start());
            if path.is_empty() {
                add(
                    PAGE,
                    range
                        .and_then(bytes)
                        .ok_or_else(|| Failure::broken("maps without addresses"))?
                        / 4096,
                );
            }
            // A file is mapped from its beginning; what begins elsewhere is a part of a mapping
            // with another protection.
            if path.starts_with(domain) && offset == Some("00000000") {
                add(&format!("{MAPPING}{path}"), 1);
            }
        }
        add(THREAD, fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count));
        Ok(Belongings(all))
    }

    fn count(&self, sort: &str) -> usize {
        self.0.get(sort).copied().unwrap_or(0)
    }

    /// Returns whether that sort is the descriptors of a file that is mapped.
    fn maps_file_of(&self, sort: &str) -> bool {
        let file = sort.strip_prefix(DESCRIPTOR);
        file.is_some_and(|file| self.count(&format!("{MAPPING}{file}")) > 0)
    }

    /// How many threads there are.
    pub(super) fn threads(&self) -> usize {
        self.count(THREAD)
    }

    /// What is too much or too little after an operation that has failed, and that turns `before`
    /// into `usual` when it succeeds: all has to be as before. What is made once may stay, but no
    /// more of it than when the operation succeeds; `lasting` is
    /// [`Scenario::lasting_mappings`](crate::scenario::Scenario::lasting_mappings), and each of these
    /// has its descriptor.
    pub(super) fn wrong_after_an_error(
        &self,
        before: &Belongings,
        usual: &Belongings,
        lasting: usize,
    ) -> Option<String> {
        self.wrong(&[before], |sort| {
            let was = before.count(sort);
            let may_stay = match sort {
                PAGE => PAGES_MADE_ONCE,
                _ if sort.starts_with(MAPPING) => lasting,
                _ if usual.maps_file_of(sort) => lasting,
                _ => 0,
            };
            was..=was + usual.count(sort).saturating_sub(was).min(may_stay)
        })
    }

    /// The same of an operation that has succeeded. It has no more of anything than without the
    /// fault, and has given up what it gives up. It may have done without a thing that it makes
    /// otherwise: a ring, a record of the order of locks.
    pub(super) fn wrong_after_success(
        &self,
        before: &Belongings,
        usual: &Belongings,
    ) -> Option<String> {
        self.wrong(&[before, usual], |sort| {
            before.count(sort).min(usual.count(sort))..=usual.count(sort)
        })
    }

    fn wrong(
        &self,
        others: &[&Belongings],
        should: impl Fn(&str) -> RangeInclusive<usize>,
    ) -> Option<String> {
        let sorts: BTreeSet<&String> =
            others.iter().chain([&self]).flat_map(|all| all.0.keys()).collect();
        let say = |sort: &String| {
            let (is, should) = (self.count(sort), should(sort));
            (!should.contains(&is)).then(|| match should.into_inner() {
                (least, most) if least == most => format!("{sort}: {is} instead of {most}"),
                (least, most) => format!("{sort}: {is} instead of {least} to {most}"),
            })
        };
        let wrong: Vec<String> = sorts.into_iter().filter_map(say).collect();
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }
}

/// How many bytes such a range of addresses has: `7f00-8f00`.
fn bytes(range: &str) -> Option<usize> {
    let (from, to) = range.split_once('-')?;
    usize::from_str_radix(to, 16).ok()?.checked_sub(usize::from_str_radix(from, 16).ok()?)
}

fn numberless(sort: &str, folder: &str) -> String {
    let mut name = String::new();
    for letter in sort.replace(folder, "").chars() {
        match letter {
            '0'..='9' if name.ends_with('#') => {}
            '0'..='9' => name.push('#'),
            letter => name.push(letter),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(all: &[(&str, usize)]) -> Belongings {
        Belongings(all.iter().map(|&(sort, count)| (sort.to_owned(), count)).collect())
    }

    #[test]
    fn after_an_error_all_is_as_before() {
        let (before, usual) =
            (holding(&[("file", 2)]), holding(&[("file", 3), ("mapping of it", 1)]));
        assert_eq!(before.wrong_after_an_error(&before, &usual, 0), None);
        let wrong = usual.wrong_after_an_error(&before, &usual, 0).expect("a leak");
        assert_eq!(wrong, "file: 3 instead of 2; mapping of it: 1 instead of 0");
        assert!(holding(&[("file", 1)]).wrong_after_an_error(&before, &usual, 0).is_some());
        let wrong = usual.wrong_after_an_error(&before, &usual, 1).expect("a leak");
        assert_eq!(wrong, "file: 3 instead of 2");
    }

    #[test]
    fn a_mapping_that_lasts_has_its_descriptor() {
        let before = holding(&[("descriptor of /a", 1), ("mapping of /a", 1)]);
        let usual = holding(&[("descriptor of /a", 2), ("mapping of /a", 2)]);
        assert_eq!(usual.wrong_after_an_error(&before, &usual, 1), None);
        let more =
            holding(&[("descriptor of /a", 2), ("mapping of /a", 2), ("descriptor of /b", 1)]);
        let wrong = more.wrong_after_an_error(&before, &more, 1);
        assert_eq!(wrong.as_deref(), Some("descriptor of /b: 1 instead of 0"), "it is not mapped");
    }

    #[test]
    fn pages_that_are_made_once_may_stay() {
        let pages = |count| holding(&[(PAGE, count)]);
        let wrong =
            |now, usual| pages(now).wrong_after_an_error(&pages(5), &pages(usual), 1).is_some();
        assert_eq!([5, 6, 7, 8].map(|now| wrong(now, 9)), [false, false, false, true]);
        assert!(wrong(6, 5), "without the fault none is made");
    }

    #[test]
    fn after_success_it_is_as_without_the_fault() {
        let (before, usual) = (holding(&[("file", 2), ("old", 1)]), holding(&[("file", 3)]));
        let wrong = |all: &[(&str, usize)]| holding(all).wrong_after_success(&before, &usual);
        assert_eq!(wrong(&[("file", 3)]), None);
        assert_eq!(wrong(&[("file", 2)]), None, "it did without");
        assert_eq!(wrong(&[("file", 4)]).as_deref(), Some("file: 4 instead of 2 to 3"));
        assert_eq!(wrong(&[("file", 3), ("old", 1)]).as_deref(), Some("old: 1 instead of 0"));
        assert_eq!(wrong(&[("file", 3), ("thread", 1)]).as_deref(), Some("thread: 1 instead of 0"));
    }

    #[test]
    fn names_are_without_numbers() {
        assert_eq!(
            numberless("mapping of /w/world-12/domain/thing345", "/w/world-12"),
            "mapping of /domain/thing#"
        );
        assert_eq!(bytes("7f0000-7f2000"), Some(8192));
    }
}
