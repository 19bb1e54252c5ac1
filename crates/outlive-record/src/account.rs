//! The account of a recording: which messages are in the file, which are missing, and as what these count.
//!
//! It lies in the positions, which end each group, so a group and the account change by one write. The recording has
//! a *phase*:
//!
//! | phase | what comes now is | left by |
//! | --- | --- | --- |
//! | `First`: no group | no recorder's | the first group of a recorder: `Recording` |
//! | `Recording` | to be recorded; what is not found later is *lost* | the last group before a stop or an end |
//! | `Stopped` | *skipped* | the first group after a start, or of a successor: `Recording` |
//! | `Ended` | what is there yet is recorded, the rest skipped | the first group of a recorder that resumes the file: `Recording` |
//!
//! A recorder that dies in a phase leaves it. It dies between two groups, so its successor finds the account of the
//! last one, and begins with that. Each thing that is recorded has a state of its own:
//!
//! | state of a thing | its positions | a recorder that begins |
//! | --- | --- | --- |
//! | unknown | none | is the thing's first one: it has come since, and all of it counts. In phase `First`, or if the selection was another one: it begins where the thing is |
//! | followed | how far it is, and what is missing and not told | goes on there |
//! | left | these, and `.left` | begins where the thing is: a recorder ran that did not want it, so what is missing is skipped |
//! | noted | `unread.NAME`, with the file's identity | could not read it. `outside`: it begins where the thing is once that can be read. `skipped`, if none was to record: it counts all before that as skipped, whatever its selection. `stopped`, the same after another selection: as `skipped` if the thing has positions, else as `outside` |
//!
//! proof/models/record_account.pml has a recorder that begins, takes, stops, starts, ends, and dies between any two
//! of these steps.

use std::os::unix::fs::MetadataExt;

use outlive::Domain;
use outlive_mcap::Positions;

/// What the messages are that have come since the last group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is no group: what was there counts nowhere.
    First,
    /// A recorder was to record them, and died, or is recording.
    Recording,
    /// A recorder was told to stop.
    Stopped,
    /// A recorder has ended in order.
    Ended,
}

impl Phase {
    /// Returns the phase that a file's positions say. `is_finished`: the file has its index.
    pub fn of(positions: &Positions, is_finished: bool) -> Phase {
        match positions.get(PHASE).map(String::as_str) {
            Some(STOPPED) => Phase::Stopped,
            Some(ENDED) => Phase::Ended,
            None if positions.is_empty() => Phase::First,
            _ if is_finished => Phase::Ended,
            _ => Phase::Recording,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Phase::First | Phase::Recording => RECORDING,
            Phase::Stopped => STOPPED,
            Phase::Ended => ENDED,
        }
    }

    /// Returns whether no recorder was to record.
    fn is_skipping(self) -> bool {
        matches!(self, Phase::Stopped | Phase::Ended)
    }
}

/// Returns whether a recorder of that name has written the positions. `None`: one without a name.
pub fn is_of(positions: &Positions, recorder: Option<&str>) -> bool {
    positions.get(RECORDER).map(String::as_str) == recorder
}

/// How a recorder comes to begin, as its own process knows.
#[derive(Default)]
pub struct Start {
    /// A request says so: in the next file, if the one that is there is finished.
    pub is_told: bool,
    /// This process has stopped the recording: the account then. It is newer than that of any file.
    pub stopped: Option<Positions>,
    /// A recorder of the name has died, and its service is there.
    pub is_heir: bool,
}

/// Where a source begins, and what became of the messages between its position and that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// What is there already is wanted; else what comes from now on.
    pub is_all_wanted: bool,
    /// Without a position: all of it counts. Else nothing is known of what it had before.
    pub is_new: bool,
    /// What is missing was sent while no recorder was to record it: it is skipped. Else it is lost.
    pub is_skipped: bool,
}

/// How a thing that cannot be opened is accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// As it is: what it has is to be recorded once it can be opened.
    Not,
    /// What it has by now counts nowhere.
    Outside,
    /// What it has by now was sent while none was to record.
    Skipped,
    /// What it has by now was to be recorded, and the recorder ends.
    Lost,
}

/// A file in the domain's folder, as long as it is there: a thing that is made anew is another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(String);

impl Identity {
    /// Returns that of the thing of that name. `None`: there is none, or it cannot be looked at.
    pub fn of(domain: &Domain, name: &str) -> Option<Identity> {
        let found = domain.path().join(name).symlink_metadata().ok()?;
        // A file system may give a number out again; not with the same time of birth.
        let born =
            found.created().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let born = born.map_or(0, |since| since.as_nanos());
        Some(Identity(format!("{:x}.{:x}.{born:x}", found.dev(), found.ino())))
    }
}

/// See the head of this file.
pub struct Account {
    /// What the next group says.
    pub positions: Positions,
    phase: Phase,
    /// The last group's recorder was to record the same: a thing of which it says nothing has come since.
    is_complete: bool,
    /// A recorder with a name takes what is there yet.
    is_named: bool,
    /// The first group is not written.
    is_beginning: bool,
    /// The next group is the last one.
    is_ending: bool,
}

impl Account {
    /// Begins with what the file says, or the process.
    pub fn begin(
        file: Positions,
        phase: Phase,
        stopped: Option<Positions>,
        recorder: Option<&str>,
        selection: &str,
    ) -> Account {
        let (mut positions, phase) = match stopped {
            Some(own) => (own, Phase::Stopped),
            None => (file, phase),
        };
        let is_complete = positions.get(SELECTION).is_some_and(|own| own == selection);
        positions.insert(SELECTION.to_owned(), selection.to_owned());
        positions.insert(PHASE.to_owned(), RECORDING.to_owned());
        match recorder {
            Some(name) => positions.insert(RECORDER.to_owned(), name.to_owned()),
            None => positions.remove(RECORDER),
        };
        let is_named = recorder.is_some();
        Account { positions, phase, is_complete, is_named, is_beginning: true, is_ending: false }
    }

    /// Returns whether it goes on behind a recorder that died or has ended.
    pub fn is_resumed(&self) -> bool {
        matches!(self.phase, Phase::Recording | Phase::Ended)
    }

    /// Returns whether there are positions of things.
    pub fn has_positions(&self) -> bool {
        self.phase != Phase::First
    }

    /// Returns whether the first group is not written yet.
    pub fn is_beginning(&self) -> bool {
        self.is_beginning
    }

    /// Returns whether the recorder before may have had things that this one does not want.
    pub fn has_other_selection(&self) -> bool {
        self.is_beginning && self.phase != Phase::First && !self.is_complete
    }

    /// The first group is written: what comes from now on is to be recorded, from its first message on.
    pub fn has_begun(&mut self) {
        (self.phase, self.is_complete, self.is_beginning) = (Phase::Recording, true, false);
    }

    /// The next group is the last one: what cannot be opened by now will not be recorded.
    pub fn end(&mut self, phase: Phase) {
        self.is_ending = true;
        self.positions.insert(PHASE.to_owned(), phase.word().to_owned());
    }

    /// Returns what the account says of a thing of that name that is opened now.
    pub fn entry<'a>(&'a self, name: &str, identity: Option<&Identity>) -> Entry<'a> {
        Entry { account: self, noted: self.noted(name, identity) }
    }

    fn noted(&self, name: &str, identity: Option<&Identity>) -> Option<Noted> {
        let (own, what) = self.positions.get(&unread(name))?.split_once(' ')?;
        // Else it was made anew since.
        (identity?.0 == own).then_some(match what {
            SKIPPED => Noted::Skipped,
            STOPPED => Noted::Stopped,
            _ => Noted::Outside,
        })
    }

    /// A thing cannot be read: how it is accounted for is noted until it can be. What is noted of it already holds.
    pub fn note_unread(&mut self, name: &str, identity: Option<&Identity>) {
        let Some(own) = identity else { return };
        let entry = self.entry(name, identity);
        if entry.noted.is_some() {
            return;
        }
        let what = match entry.closing(None) {
            Closing::Not | Closing::Lost => return,
            // Its number cannot be read, so it is not known yet whether the recorder before had it.
            Closing::Outside if self.phase.is_skipping() => STOPPED,
            Closing::Outside => OUTSIDE,
            Closing::Skipped => SKIPPED,
        };
        self.positions.insert(unread(name), format!("{} {what}", own.0));
    }

    /// A thing is followed from here on.
    pub fn follow(&mut self, name: &str, instance: u64) {
        self.positions.remove(&unread(name));
        self.positions.remove(&left(instance));
    }

    /// No recorder wants it from here on.
    pub fn leave(&mut self, name: &str, instance: u64) {
        self.follow(name, instance);
        self.positions.insert(left(instance), String::new());
    }

    /// It was removed: nothing has its number again.
    pub fn forget(&mut self, instance: u64) {
        let prefix = prefix(instance);
        self.positions.retain(|key, _| !key.starts_with(&prefix));
    }

    /// Forgets what was noted of things that are gone or were made anew.
    pub fn forget_unread(&mut self, identity: impl Fn(&str) -> Option<Identity>) {
        self.positions.retain(|key, value| match key.strip_prefix(UNREAD) {
            Some(name) => identity(name)
                .is_some_and(|own| value.split_once(' ').is_some_and(|(noted, _)| noted == own.0)),
            None => true,
        });
    }

    /// Returns whether there are positions of a thing that a recorder wanted, and whether it was left since.
    pub fn state_of(&self, instance: u64) -> (bool, bool) {
        let prefix = prefix(instance);
        let mut own = self.positions.range(prefix.clone()..);
        let has_position = own.next().is_some_and(|(key, _)| key.starts_with(&prefix));
        (has_position, self.positions.contains_key(&left(instance)))
    }
}

/// What is noted of a thing that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Noted {
    Outside,
    /// Skipped, if a recorder had it before; else outside.
    Stopped,
    Skipped,
}

impl Noted {
    /// Returns the same, once its number tells whether there are positions of it.
    fn of(self, is_known: bool) -> Noted {
        match (self, is_known) {
            (Noted::Stopped, true) => Noted::Skipped,
            (Noted::Stopped, false) => Noted::Outside,
            (other, _) => other,
        }
    }
}

/// What the account says of one thing.
pub struct Entry<'a> {
    account: &'a Account,
    noted: Option<Noted>,
}

impl Entry<'_> {
    /// Returns the positions.
    pub fn positions(&self) -> &Positions {
        &self.account.positions
    }

    /// Returns how the thing is accounted for if it cannot be opened now. `None`: its number cannot be read.
    pub fn closing(&self, instance: Option<u64>) -> Closing {
        let Account { phase, is_complete, is_beginning, .. } = *self.account;
        let (is_known, is_left) =
            instance.map_or((false, false), |instance| self.account.state_of(instance));
        if self.account.is_ending {
            return match self.noted.map(|noted| noted.of(is_known)) {
                Some(Noted::Outside) if !is_known => Closing::Outside,
                Some(Noted::Skipped) => Closing::Skipped,
                _ if is_left => Closing::Skipped,
                _ => Closing::Lost,
            };
        }
        if !is_beginning {
            return Closing::Not;
        }
        let is_skipped = self.noted == Some(Noted::Skipped);
        if phase.is_skipping() || is_left || is_skipped {
            return match is_known || self.is_new() {
                true => Closing::Skipped,
                false => Closing::Outside,
            };
        }
        match is_known || phase == Phase::Recording && is_complete {
            true => Closing::Not,
            false => Closing::Outside,
        }
    }

    /// Returns whether a thing without a position has come since there was an account.
    fn is_new(&self) -> bool {
        let Account { phase, is_complete, .. } = *self.account;
        match self.noted.map(|noted| noted.of(false)) {
            Some(Noted::Outside) => false,
            // It had come when that was noted, and the selection had not changed.
            Some(Noted::Skipped) => true,
            _ => phase != Phase::First && is_complete,
        }
    }

    /// Returns where the thing of that number begins.
    pub fn beginning(&self, instance: u64) -> Beginning {
        let (is_known, is_left) = self.account.state_of(instance);
        let Account { phase, is_named, is_beginning, .. } = *self.account;
        let takes_rest = match phase {
            Phase::First | Phase::Stopped => false,
            // Without a name, none was promised what came before this one.
            Phase::Recording | Phase::Ended => is_named || !is_beginning,
        };
        Beginning {
            is_all_wanted: takes_rest && !is_left && (is_known || self.noted.is_none()),
            is_new: self.is_new(),
            is_skipped: phase.is_skipping()
                || is_left
                || self.noted.is_some_and(|noted| noted.of(is_known) == Noted::Skipped),
        }
    }
}

/// A count, and how much of it is told.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    all: u64,
    told: u64,
}

impl Told {
    fn add(&mut self, count: u64) {
        self.all = self.all.saturating_add(count);
    }

    fn untold(self) -> u64 {
        self.all.saturating_sub(self.told)
    }

    fn tell(&mut self, count: u64) {
        self.told = self.told.saturating_add(count).min(self.all);
    }
}

/// How many messages of a source are missing in the file, and how many of these the file's events tell. What is not
/// told yet is in the positions, so that a successor tells it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Missing {
    lost: Told,
    skipped: Told,
}

impl Missing {
    /// Returns what a predecessor has counted and not told.
    pub fn of_predecessor(lost: u64, skipped: u64) -> Missing {
        let mut missing = Missing::default();
        missing.lose(lost);
        missing.skip(skipped);
        missing
    }

    /// So many were overwritten, or expired, although a recorder was to record them.
    pub fn lose(&mut self, count: u64) {
        self.lost.add(count);
    }

    /// So many were sent while no recorder was to record.
    pub fn skip(&mut self, count: u64) {
        self.skipped.add(count);
    }

    /// So many are missing, of which the first `skipped` were sent while no recorder was to record.
    pub fn miss(&mut self, count: u64, skipped: u64) {
        let skipped = skipped.min(count);
        self.skip(skipped);
        self.lose(count - skipped);
    }

    /// Returns how many were lost.
    pub fn lost(&self) -> u64 {
        self.lost.all
    }

    /// Returns how many were skipped.
    pub fn skipped(&self) -> u64 {
        self.skipped.all
    }

    /// Returns how many of the lost ones are not told.
    pub fn untold_lost(&self) -> u64 {
        self.lost.untold()
    }

    /// Returns how many of the skipped ones are not told.
    pub fn untold_skipped(&self) -> u64 {
        self.skipped.untold()
    }

    /// So many more lost ones are told in the open group.
    pub fn tell_lost(&mut self, count: u64) {
        self.lost.tell(count);
    }

    /// So many more skipped ones are told in the open group.
    pub fn tell_skipped(&mut self, count: u64) {
        self.skipped.tell(count);
    }
}

/// Returns what the positions of a thing begin with.
pub fn prefix(instance: u64) -> String {
    format!("{instance:016x}.")
}

fn left(instance: u64) -> String {
    format!("{}{LEFT}", prefix(instance))
}

fn unread(name: &str) -> String {
    format!("{UNREAD}{name}")
}

/// What the positions say of the recording as a whole.
const PHASE: &str = "phase";
const RECORDING: &str = "recording";
const STOPPED: &str = "stopped";
const ENDED: &str = "ended";
/// The recorder's name, if it has one.
const RECORDER: &str = "recorder";
/// What a recorder was to record.
const SELECTION: &str = "selection";
/// Of a thing: no recorder has wanted it since.
pub const LEFT: &str = "left";
/// Before the name of a thing that could not be read.
const UNREAD: &str = "unread.";
/// How the messages count that such a thing had by then; or [`STOPPED`].
const OUTSIDE: &str = "outside";
const SKIPPED: &str = "skipped";
