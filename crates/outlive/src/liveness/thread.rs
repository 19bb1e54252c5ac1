//! The calling thread's tokens: one per domain, found at the price of two loads.
//!
//! Each thread has one page, wiped on fork (`MADV_WIPEONFORK`), with its token ids by registry. A
//! forked child finds zeroes there and claims tokens of its own: it cannot pass for its parent. A
//! thread-local pointer leads to the page. It begins at a page of zeroes, so the fast path does not
//! ask whether the thread has a page.
//!
//! A thread does not give its token back when it ends: the kernel marks it, which is right for
//! every kind of end. Destructors that run late may still lock.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Mutex;

use super::enroll::TokenUse;
use super::id::TokenId;
use super::registry::{MOST_REGISTRIES, Registry};
use crate::Error;
use crate::shim::Ordering;
use crate::sys::thread_end::ThreadEnd;
use crate::sys::{map, process, robust};

/// The calling thread inside a protocol: its token and where its robust list begins.
#[derive(Clone, Copy)]
pub struct Me {
    pub(crate) registry: &'static Registry,
    pub(crate) id: TokenId,
}

#[repr(C)]
struct Page {
    /// Where the thread's robust list begins; null until its first token (libc may set it as late
    /// as that).
    list: Cell<*mut robust::ListHead>,
    /// By `Registry::index`; 0: no token. The first one is always 0.
    ids: [Cell<u32>; MOST_REGISTRIES],
}

const _: () = assert!(size_of::<Page>() <= map::PAGE as usize);

struct Zeroes(Page);
// SAFETY: never written: every store goes through `own_page`, which never returns this page.
unsafe impl Sync for Zeroes {}
static ZEROES: Zeroes =
    Zeroes(Page { list: Cell::new(core::ptr::null_mut()), ids: [const { Cell::new(0) }; _] });

/// Where the thread's page is.
#[cfg(not(all(
    feature = "shared-library",
    target_arch = "x86_64",
    not(target_feature = "avx512f"),
    not(miri)
)))]
mod page {
    use super::*;

    thread_local! {
        static PAGE: Cell<*const Page> = const { Cell::new(&raw const ZEROES.0) };
    }

    #[inline]
    pub(super) fn get() -> *const Page {
        PAGE.get()
    }

    pub(super) fn set(page: *const Page) {
        PAGE.set(page);
    }
}

#[cfg(all(
    feature = "shared-library",
    target_arch = "x86_64",
    not(target_feature = "avx512f"),
    not(miri)
))]
mod page {
    use super::*;
    use crate::sys::thread_word;

    // The word begins as 0: it holds the distance of the page from the page of zeroes.
    #[inline]
    pub(super) fn get() -> *const Page {
        // Exposed by `set`; of the page of zeroes below.
        core::ptr::with_exposed_provenance(
            (&raw const ZEROES.0).expose_provenance().wrapping_add(thread_word::get()),
        )
    }

    pub(super) fn set(page: *const Page) {
        thread_word::set(page.expose_provenance().wrapping_sub((&raw const ZEROES.0).addr()));
    }
}

thread_local! {
    /// The newest of this thread's tokens: when it is dead, the thread has ended.
    static LAST: Cell<Option<Me>> = const { Cell::new(None) };
}

/// Pages of threads that are past their destructors, or nearly so: a page may be used again once
/// its token is dead.
struct Retired(Vec<(*const Page, Me)>);
// SAFETY: only the thread that takes a page out of the list reaches it, after the page's own thread
// has ended.
unsafe impl Send for Retired {}
static RETIRED: Mutex<Retired> = Mutex::new(Retired(Vec::new()));

/// Lets the thread's page be used again, and hands the process token over when main ends.
extern "C" fn leave(_: *mut core::ffi::c_void) {
    if process::is_main_thread() {
        super::process_token::main_leaves();
    }
    // Destructors that run after this may still lock and unlock: the page stays theirs until the
    // thread is gone.
    match LAST.try_with(Cell::get) {
        Ok(Some(last)) => {
            if let Ok(mut retired) = RETIRED.try_lock() {
                retired.0.push((page::get(), last));
            }
        }
        // It got no token. A destructor that runs after this may get one, and then another page.
        Ok(None) if !core::ptr::eq(page::get(), &raw const ZEROES.0) => {
            let page = NonNull::new(page::get().cast_mut().cast());
            page::set(&raw const ZEROES.0);
            // SAFETY: `own_page` mapped it for this thread, which no longer reaches it: `set` above
            // points elsewhere.
            page.into_iter().for_each(|page| unsafe { map::unmap_page(page) });
        }
        _ => {}
    }
}

static LEAVE: ThreadEnd = ThreadEnd::new(leave);

impl Registry {
    /// Returns the calling thread's token as claims hold it; 0 if it has none.
    #[inline]
    pub(crate) fn current_bits(&self) -> u32 {
        // SAFETY: the pointer leads to the static zeroes or to this thread's own page; `open` hands
        // out indexes below MOST_REGISTRIES only.
        unsafe { (*page::get()).ids.get_unchecked(self.index).get() }
    }

    /// Returns the same for the fast path of a lock: also 0 while the process records the order of
    /// locks, so that the lock takes its slow path.
    #[inline]
    pub(crate) fn fast_bits(&self) -> u32 {
        let at = self.fast.load(Ordering::Relaxed);
        // SAFETY: the pointer is valid as in `current_bits`; `fast` is the index or 0.
        unsafe { (*page::get()).ids.get_unchecked(at).get() }
    }

    /// Returns the calling thread and its token, which it claims now if it has none.
    #[inline]
    pub(crate) fn me(&'static self) -> Result<Me, Error> {
        match self.current_bits() {
            0 => self.me_slow(),
            // Only ids are ever stored there.
            bits => {
                let me = Me { registry: self, id: TokenId::from_own(bits) };
                // This thread lives, so its token must, too; otherwise others may have taken over
                // what it holds.
                if self.is_alive(me.id) { Ok(me) } else { Err(self.declared_dead()) }
            }
        }
    }

    #[cold]
    pub(super) fn declared_dead(&self) -> Error {
        Error::DeclaredDead { path: self.path().to_path_buf() }
    }

    #[cold]
    #[inline(never)]
    fn me_slow(&'static self) -> Result<Me, Error> {
        // The page first: a token that cannot be stored would be this thread's until it ends, and
        // the next try would take another.
        let page =
            own_page().map_err(|errno| Error::from_errno("keep a token of", self.path(), errno))?;
        let (id, _) = self.claim(TokenUse::Thread)?;
        let list = robust::list_head()
            .map_err(|errno| Error::from_errno("read the robust list for", self.path(), errno))?;
        page.list.set(list);
        page.ids[self.index].set(id.as_u32());
        let me = Me { registry: self, id };
        LAST.set(Some(me));
        self.renew_keeper()?;
        if self.takes_sweep() {
            crate::sweep_quarantined(self.path());
        }
        Ok(me)
    }
}

impl Me {
    /// Returns whether that token is alive; the caller's own is.
    pub(crate) fn is_alive(self, id: TokenId) -> bool {
        id == self.id || self.registry.is_alive(id)
    }

    /// Returns the calling thread's robust list.
    pub(crate) fn list(self) -> *mut robust::ListHead {
        // SAFETY: the pointer leads to the static zeroes or to this thread's own page (`own_page`).
        unsafe { (*page::get()).list.get() }
    }
}

fn own_page() -> Result<&'static Page, crate::sys::Errno> {
    let mut page = page::get();
    if core::ptr::eq(page, &raw const ZEROES.0) {
        // Before there is a page: otherwise the next try would find a page, and this would stay
        // undone.
        LEAVE.arm()?;
        page = match retired_page() {
            Some(page) => page,
            None => map::page_wiped_on_fork()?.as_ptr().cast(),
        };
        page::set(page);
    }
    // SAFETY: this thread's own page, mapped and never unmapped; zeroes are a valid Page, too.
    Ok(unsafe { &*page })
}

/// Returns the page of a thread that has ended, cleared.
fn retired_page() -> Option<*const Page> {
    // Never waits: a forked child may have inherited the lock while another thread held it.
    let mut retired = RETIRED.try_lock().ok()?;
    let at = retired.0.iter().position(|(_, last)| !last.registry.is_alive(last.id))?;
    let (page, _) = retired.0.swap_remove(at);
    // SAFETY: its thread has ended, so no other reaches it; a page consists of cells, and zeroes
    // are a valid one.
    unsafe {
        (*page).list.set(core::ptr::null_mut());
        for id in &(*page).ids {
            id.set(0);
        }
    }
    Some(page)
}
