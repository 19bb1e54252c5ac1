//! States as sources: who follows one.

use std::sync::Arc;

use super::futures::UntilReady;
use super::source::{Announced, Look, Readiness, Source, Waited, Watched};
use crate::Error;
use crate::state::{BytesWatch, Change, StateNews, StateReadiness, StateWatch};
use crate::sync::AwaitError;
use crate::wake::EventCount;
use crate::wake::WaitWords;

/// Ready when there is something to be told: [`Readiness::Changed`] of a value, [`Readiness::Ended`] of a writer's death; until
/// [`BytesWatch::try_changed`] has told it.
impl Source for BytesWatch {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(of(self.readiness()))
    }
}

/// Ready when there is something to be told: [`Readiness::Changed`] of a value, [`Readiness::Ended`] of a writer's death; until
/// [`StateWatch::try_changed`] has told it.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-set-state-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::state::{Change, State};
/// use outlive::wait::{WaitSet, Readiness};
///
/// let (level, mode) = (State::<u64>::open(&domain, "level", 10)?, State::<u8>::open(&domain, "mode", 0)?);
/// let (mut levels, mut modes) = (level.watch(), mode.watch());
/// // What is there now.
/// levels.changed()?;
/// modes.changed()?;
///
/// let mut set = WaitSet::new(&domain);
/// let (a_level, _a_mode) = (set.add(&levels)?, set.add(&modes)?);
/// std::thread::spawn(move || level.writer().unwrap().set(&11));
/// assert_eq!(set.wait(outlive::Deadline::NEVER)?.collect::<Vec<_>>(), [(a_level, Readiness::Changed)]);
/// assert_eq!(levels.try_changed(), Some(Change::Value { version: 2 }));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Source for StateWatch {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(of(self.readiness()))
    }
}

fn of(readiness: StateReadiness) -> Watched {
    let registry = Some(readiness.registry());
    Watched { waited: Arc::new(readiness), registry }
}

impl Waited for StateReadiness {
    fn look(&self) -> Look {
        match StateReadiness::look(self) {
            StateNews::Value => Look::Ready(Readiness::Changed),
            StateNews::WriterDied => Look::Ready(Readiness::Ended),
            StateNews::Nothing(Some(owner)) => Look::Owner(owner),
            StateNews::Nothing(None) => Look::Nothing,
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(self.changes())
    }

    fn add_words<'a>(&'a self, announced: &mut Announced, words: &mut WaitWords<'a>) {
        announced.asked = self.add_to(self.changes().watch(announced.ticket), words);
    }

    fn needs_recheck(&self, announced: &Announced) -> bool {
        // Beside no writer: see role.rs.
        announced.asked.is_some()
    }

    fn woken(&self, announced: &Announced) {
        announced.asked.into_iter().for_each(|asked| StateReadiness::woken(self, asked));
    }
}

impl BytesWatch {
    /// [`BytesWatch::changed`] for `async`: see [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// # Errors
    /// [`AwaitError::System`].
    ///
    /// # If a process dies
    /// As with [`BytesWatch::changed`].
    pub async fn changed_async(&mut self) -> Result<Change, AwaitError> {
        loop {
            if let Some(change) = self.try_changed() {
                return Ok(change);
            }
            let readiness = UntilReady::of_one(self, self.readiness().registry()).map_err(AwaitError::System)?;
            readiness.await.map_err(AwaitError::System)?;
        }
    }
}

impl StateWatch {
    /// [`StateWatch::changed`] for `async`: see [`Receiver::recv_async`](crate::queue::Receiver::recv_async).
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-state-async-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// use outlive::state::{Change, State};
    /// let level = State::<u64>::open(&domain, "level", 10)?;
    /// let mut watch = level.watch();
    /// # runtime.block_on(async {
    /// assert_eq!(watch.changed_async().await?, Change::Value { version: 1 });
    /// std::thread::spawn(move || level.writer().unwrap().set(&11));
    /// assert_eq!(watch.changed_async().await?, Change::Value { version: 2 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AwaitError::System`].
    ///
    /// # If a process dies
    /// As with [`BytesWatch::changed`].
    pub async fn changed_async(&mut self) -> Result<Change, AwaitError> {
        self.bytes_mut().changed_async().await
    }
}
