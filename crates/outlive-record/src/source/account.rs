//! How many messages of a source are not in the file, and how many of these the file tells.
//!
//! What is not told yet is in the positions, so that a successor tells it.

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

/// See the head of this file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Account {
    lost: Told,
    skipped: Told,
}

impl Account {
    /// Returns an account with what a predecessor has counted and not told.
    pub fn of_predecessor(lost: u64, skipped: u64) -> Account {
        let mut account = Account::default();
        account.lose(lost);
        account.skip(skipped);
        account
    }

    /// So many were overwritten, although a recorder was to record them.
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
