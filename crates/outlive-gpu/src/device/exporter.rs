//! The exporter: a process that has blocks answers requests for them, by a thread, on a socket in
//! the domain's folder. doc/protocols/gpu.md, "Which thread answers".
//!
//! | the exporter died | the asker |
//! | --- | --- |
//! | between binding the socket and the answer | finds it closed: the owner died |
//! | in the middle of an answer | the same: an answer is one message, with its descriptor or not at all |
//! | after it | has the block |
//!
//! The thread calls nothing of the driver's and nothing of the domain's, and waits only for askers:
//! any thread may wait for it, also in host functions.

use std::collections::HashMap;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outlive::{Domain, TokenId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

use super::mapping::Mapping;
use crate::GpuError;

/// The first word of requests and answers.
pub(super) const MARK: u64 = u64::from_le_bytes(*b"gpublk_1");
/// The block is sent along.
pub(super) const HERE: u64 = 1;
/// There is no block of that number.
pub(super) const GONE: u64 = 2;
/// {mark, the block's number}.
pub(super) type Request = [u64; 2];
/// {mark, `HERE` or `GONE`, the block's length}.
pub(super) type Answer = [u64; 3];

/// How many askers may be connected without having asked; beyond that, the first one is sent away.
const MOST_WAITING: usize = 64;
const BACKLOG: i32 = 128;
const STACK: usize = 128 << 10;
/// How long to sleep after an error that can only be a lack of descriptors.
const REST: Duration = Duration::from_millis(10);

/// The longest path that a socket's address has room for.
const LONGEST_PATH: usize = 100;

/// The exporters of this process, by domain and token.
static ALL: Mutex<Vec<(PathBuf, TokenId, Weak<Exporter>)>> = Mutex::new(Vec::new());

type Offers = Mutex<HashMap<u64, Offer>>;

/// This process's exporter in one domain, for as long as it has blocks or publishers there.
pub(crate) struct Exporter {
    token: TokenId,
    folder: PathBuf,
    offers: Arc<Offers>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

struct Offer {
    file: OwnedFd,
    mapping: Weak<Mapping>,
    len: u64,
}

fn all() -> MutexGuard<'static, Vec<(PathBuf, TokenId, Weak<Exporter>)>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lock(offers: &Offers) -> MutexGuard<'_, HashMap<u64, Offer>> {
    offers.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn failed(what: &'static str) -> impl Fn(rustix::io::Errno) -> GpuError {
    move |errno| GpuError::System { what, errno: errno.raw_os_error() }
}

/// Returns the name of that process's socket.
fn file_name(token: TokenId) -> String {
    Domain::extension_file("gpu", token)
}

/// Returns the address of that process's socket, and what has to stay open while the address is
/// used.
pub(super) fn address_of(
    folder: &Path,
    token: TokenId,
) -> Result<(SocketAddrUnix, Option<OwnedFd>), GpuError> {
    use rustix::fs::{Mode, OFlags};
    let path = folder.join(file_name(token));
    let to_open = failed("open the domain's folder");
    if path.as_os_str().len() <= LONGEST_PATH {
        return Ok((SocketAddrUnix::new(path.as_path()).map_err(to_open)?, None));
    }
    let open = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, open, Mode::empty()).map_err(&to_open)?;
    let short =
        format!("/proc/self/fd/{}/{}", std::os::fd::AsRawFd::as_raw_fd(&opened), file_name(token));
    Ok((SocketAddrUnix::new(short.as_str()).map_err(to_open)?, Some(opened)))
}

/// Removes the socket of that process, which is dead.
pub(super) fn remove_dead(folder: &Path, token: TokenId) {
    // Another process has removed it, or none may: it is in no process's way.
    let _ = std::fs::remove_file(folder.join(file_name(token)));
}

/// Returns the mapping of that block, if it is this process's own.
pub(super) fn own(domain: &Domain, token: TokenId, number: u64) -> Option<Arc<Mapping>> {
    let all = all();
    let exporter =
        all.iter().find(|(folder, own, _)| *own == token && folder == domain.path())?.2.upgrade();
    drop(all);
    lock(&exporter?.offers).get(&number)?.mapping.upgrade()
}

impl Exporter {
    /// Returns this process's exporter in that domain, and starts it if there is none.
    pub(crate) fn of(domain: &Domain) -> Result<Arc<Exporter>, GpuError> {
        let token = domain.process_token()?;
        let mut all = all();
        let known = all.iter().find(|(folder, own, _)| *own == token && folder == domain.path());
        if let Some(exporter) = known.and_then(|known| known.2.upgrade()) {
            return Ok(exporter);
        }
        // If this fails, the old sockets stay, and are in no process's way.
        let _ = domain.sweep_extensions();
        let exporter = Arc::new(Exporter::start(domain, token)?);
        all.retain(|(_, _, exporter)| exporter.strong_count() > 0);
        all.push((domain.path().to_path_buf(), token, Arc::downgrade(&exporter)));
        Ok(exporter)
    }

    fn start(domain: &Domain, token: TokenId) -> Result<Exporter, GpuError> {
        let folder = domain.path().to_path_buf();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let listener = listener.map_err(failed("make a socket"))?;
        let (address, _open) = address_of(&folder, token)?;
        // Left by a former exporter of this process, or by a dead process with the same token.
        remove_dead(&folder, token);
        rustix::net::bind(&listener, &address)
            .map_err(failed("bind a socket in the domain's folder"))?;
        open_to_members(&folder, token)?;
        rustix::net::listen(&listener, BACKLOG).map_err(failed("listen on a socket"))?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(failed("make an eventfd"))?;
        let (stop, offers) = (Arc::new(stop), Arc::<Offers>::default());
        let thread = {
            let (stop, offers) = (Arc::clone(&stop), Arc::clone(&offers));
            let _no_signals = NoSignals::new();
            let builder =
                std::thread::Builder::new().name("outlive-gpu".to_owned()).stack_size(STACK);
            let started = builder.spawn(move || answer_all(&listener, &stop, &offers));
            started.map_err(|error| GpuError::System {
                what: "start a thread",
                errno: error.raw_os_error().unwrap_or_default(),
            })?
        };
        Ok(Exporter {
            token,
            folder,
            offers,
            stop,
            thread: Some(thread),
            process: std::process::id(),
        })
    }

    pub(crate) fn token(&self) -> TokenId {
        self.token
    }

    /// Answers for that block from now on; returns its number, which no other block of any process
    /// has.
    pub(crate) fn offer(&self, mapping: &Arc<Mapping>, file: OwnedFd) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // From the time of day on: when a token is reused, cards of the dead process must not have
        // the same numbers.
        let now =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |span| span.as_nanos() as u64);
        // Relaxed: only the number counts.
        let _ = NEXT.compare_exchange(0, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let offer = Offer { file, mapping: Arc::downgrade(mapping), len: mapping.len() };
        lock(&self.offers).insert(number, offer);
        number
    }

    /// Ceases to answer for that block.
    pub(crate) fn withdraw(&self, number: u64) {
        let withdrawn = lock(&self.offers).remove(&number);
        drop(withdrawn);
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A forked child's copy: the thread and the file belong to its parent.
            return;
        }
        {
            // Another one may have been started in the meantime, by the same name.
            let mut all = all();
            let is_latest = all.iter().any(|(folder, token, exporter)| {
                std::ptr::eq(exporter.as_ptr(), self)
                    && *token == self.token
                    && *folder == self.folder
            });
            if is_latest {
                remove_dead(&self.folder, self.token);
            }
            all.retain(|(_, _, exporter)| !std::ptr::eq(exporter.as_ptr(), self));
        }
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        // The thread waits for no other, so this ends.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Lets each user ask that may enter the folder.
fn open_to_members(folder: &Path, token: TokenId) -> Result<(), GpuError> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let path = folder.join(file_name(token));
    let open = || -> std::io::Result<()> {
        let facts = std::fs::metadata(folder)?;
        let is_group = facts.mode() & 0o070 != 0;
        if is_group {
            std::os::unix::fs::chown(&path, None, Some(facts.gid()))?;
        }
        std::fs::set_permissions(
            &path,
            PermissionsExt::from_mode(if is_group { 0o660 } else { 0o600 }),
        )
    };
    open().map_err(|error| GpuError::System {
        what: "open the socket to the domain's members",
        errno: error.raw_os_error().unwrap_or_default(),
    })
}

/// Blocks all signals in the calling thread, and so in the threads that it starts meanwhile.
struct NoSignals(libc::sigset_t);

impl NoSignals {
    fn new() -> NoSignals {
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: both pointers are places for a signal set; all zero is a valid one.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            NoSignals(before.assume_init())
        }
    }
}

impl Drop for NoSignals {
    fn drop(&mut self) {
        // SAFETY: the signal set that `pthread_sigmask` returned before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// The thread's function: answers until it is told to stop.
fn answer_all(listener: &OwnedFd, stop: &OwnedFd, offers: &Offers) {
    let mut waiting: Vec<OwnedFd> = Vec::new();
    loop {
        let mut watched =
            vec![PollFd::new(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        watched.extend(waiting.iter().map(|asker| PollFd::new(asker, PollFlags::IN)));
        // Errors: a signal, or no memory for a moment.
        let _ = poll(&mut watched, None);
        let mut ready = watched.iter().map(|watched| !watched.revents().is_empty());
        if ready.next() == Some(true) {
            return;
        }
        let somebody_comes = ready.next() == Some(true);
        let asked: Vec<bool> = ready.collect();
        let mut asked = asked.into_iter();
        // An asker that has been answered, or is gone, is removed.
        waiting.retain(|asker| !asked.next().unwrap_or(false) || !answer(asker.as_fd(), offers));
        if somebody_comes {
            match rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(asker) => waiting.push(asker),
                Err(
                    rustix::io::Errno::AGAIN
                    | rustix::io::Errno::INTR
                    | rustix::io::Errno::CONNABORTED,
                ) => {}
                Err(_) => std::thread::sleep(REST),
            }
            if waiting.len() > MOST_WAITING {
                waiting.remove(0);
            }
        }
    }
}

/// Returns whether that asker has been answered or is gone. It has room for the answer: nothing was
/// sent to it before.
fn answer(asker: BorrowedFd<'_>, offers: &Offers) -> bool {
    let mut bytes = [0; size_of::<Request>()];
    match rustix::net::recv(asker, &mut bytes[..], RecvFlags::empty()) {
        Ok((read, _)) if read == bytes.len() => {}
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return false,
        _ => return true,
    }
    let [mark, number] = words(&bytes);
    if mark != MARK {
        return true;
    }
    let offers = lock(offers);
    let offer = offers.get(&number);
    let answer: Answer = offer.map_or([MARK, GONE, 0], |offer| [MARK, HERE, offer.len]);
    let bytes = bytes_of(&answer);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let file = offer.map(|offer| [offer.file.as_fd()]);
    if let Some(file) = &file {
        control.push(SendAncillaryMessage::ScmRights(file));
    }
    // Errors: the asker is gone.
    let _ = rustix::net::sendmsg(asker, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL);
    true
}

/// Returns the words as they are sent.
pub(super) fn bytes_of<const WORDS: usize>(words: &[u64; WORDS]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Reads words as they are sent: what is missing is 0.
pub(super) fn words<const WORDS: usize>(bytes: &[u8]) -> [u64; WORDS] {
    let (whole, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|at| whole.get(at).map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
}
