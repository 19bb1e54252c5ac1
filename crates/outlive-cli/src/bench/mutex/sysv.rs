//! A System V semaphore of one permit, with SEM_UNDO: the kernel gives a dead holder's permit back.

use super::super::error::{Error, check};
use super::super::round::Stage;
use super::super::shared::Shared;
use super::Lock;
use super::counter::Counter;

/// A private semaphore, removed when dropped, and the counter.
pub(super) struct Place {
    id: libc::c_int,
    counter: Shared<Counter>,
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: our own semaphore; no memory is touched.
        unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
    }
}

/// A process's view of it.
pub(super) struct SysV {
    id: libc::c_int,
    counter: *const Counter,
}

impl SysV {
    #[inline]
    fn add(&self, permits: libc::c_short) -> Result<(), Error> {
        let mut operation = libc::sembuf { sem_num: 0, sem_op: permits, sem_flg: libc::SEM_UNDO as libc::c_short };
        // SAFETY: one valid operation.
        check(unsafe { libc::semop(self.id, &mut operation, 1) }, "using a System V semaphore").map(drop)
    }
}

impl Lock for SysV {
    const NAME: &'static str = "sysv";
    type Place = Place;

    fn place(_: &Stage) -> Result<Place, Error> {
        let counter = Shared::new()?;
        // SAFETY: no memory is touched.
        let id = check(unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) }, "making a System V semaphore")?;
        let place = Place { id, counter };
        // SAFETY: SETVAL takes an int.
        let set = unsafe { libc::semctl(id, 0, libc::SETVAL, 1) };
        check(set, "setting a System V semaphore")?;
        Ok(place)
    }

    fn open(place: &Place) -> Result<Self, Error> {
        Ok(Self { id: place.id, counter: &*place.counter })
    }

    #[inline]
    fn with<R>(&self, body: impl FnOnce(&mut u64) -> R) -> Result<R, Error> {
        self.add(-1)?;
        // SAFETY: mapped longer than the turn's processes live, and we hold the only permit.
        let result = unsafe { (*self.counter).with(body) };
        self.add(1)?;
        Ok(result)
    }
}
