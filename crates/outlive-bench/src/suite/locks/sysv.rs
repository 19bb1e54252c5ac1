//! A System V semaphore of one permit, with SEM_UNDO: the kernel gives a dead holder's permit back.

use super::number::Apart;
use super::{Handle, Held, Lock};
use crate::harness::error::{Error, check};
use crate::harness::round::Stage;
use crate::harness::shared::Shared;

/// A private semaphore, removed when dropped, and the number.
pub(crate) struct Place {
    id: libc::c_int,
    number: Shared<Apart>,
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: our own semaphore; no memory is touched.
        unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
    }
}

/// The row.
pub(crate) struct SysV;

/// A process's view of it.
pub(crate) struct View<'place>(&'place Place);

impl Lock for SysV {
    const NAME: &'static str = "sysv";
    type Place = Place;
    type Handle<'place> = View<'place>;

    fn place(_: &Stage, _: &'static str) -> Result<Place, Error> {
        let number = Shared::new()?;
        // SAFETY: no memory is touched.
        let id = check(
            unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600) },
            "making a System V semaphore",
        )?;
        let place = Place { id, number };
        // SAFETY: SETVAL takes an int.
        let set = unsafe { libc::semctl(id, 0, libc::SETVAL, 1) };
        check(set, "setting a System V semaphore")?;
        Ok(place)
    }

    fn open(place: &Place) -> Result<View<'_>, Error> {
        Ok(View(place))
    }
}

impl View<'_> {
    #[inline]
    fn add(&self, permits: libc::c_short) -> Result<(), Error> {
        let mut operation =
            libc::sembuf { sem_num: 0, sem_op: permits, sem_flg: libc::SEM_UNDO as libc::c_short };
        // SAFETY: one valid operation.
        check(unsafe { libc::semop(self.0.id, &mut operation, 1) }, "using a System V semaphore")
            .map(drop)
    }
}

impl Handle for View<'_> {
    type Held<'handle>
        = Permit<'handle>
    where
        Self: 'handle;

    #[inline]
    fn acquire(&self) -> Result<Permit<'_>, Error> {
        self.add(-1)?;
        Ok(Permit(self))
    }
}

/// The only permit.
pub(crate) struct Permit<'handle>(&'handle View<'handle>);

impl Held for Permit<'_> {
    #[inline]
    fn touch(&mut self) -> u64 {
        // SAFETY: ours is the only permit.
        unsafe { self.0.0.number.0.raise() }
    }

    #[inline]
    fn release(self) -> Result<(), Error> {
        self.0.add(1)
    }
}
