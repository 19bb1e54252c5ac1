//! The fake driver, for one test at a time, and what a test tells it.
#![allow(dead_code, reason = "each test program uses its own part of it")]

pub mod member;
pub mod scene;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use outlive::Domain;
use outlive::topic::{Durability, Topic};
use outlive_gpu::{DeviceMemory, DevicePointer, DeviceTopic, Driver, Gpu, PinnedTopic, Stream};

/// How long anything may take that has to happen.
pub const SOON: Duration = Duration::from_secs(60);

/// The environment's word for the domain of a program that a test has started.
pub const MEMBER: &str = "OUTLIVE_GPU_MEMBER";
/// The environment's word for another driver than the fake one.
const REAL: &str = "OUTLIVE_GPU_DRIVER";

/// What the fake driver counts.
#[derive(Clone, Copy)]
pub enum What {
    Registered = 0,
    EverRegistered = 1,
    Violations = 2,
    Streams = 3,
    Allocations = 4,
    Contexts = 5,
    Events = 6,
    HostFunctions = 7,
    Modules = 8,
    /// Handles, reservations and mappings of blocks.
    Blocks = 9,
}

/// Returns the library. Cargo builds it before the tests of this package and puts it beside them.
pub fn library() -> PathBuf {
    let beside = std::env::current_exe().expect("a test has a path");
    let library = beside.with_file_name("liboutlive_gpu_fake.so");
    assert!(
        library.exists(),
        "{} is not there; run `cargo test -p outlive-gpu`",
        library.display()
    );
    library
}

/// The fake driver, this test's alone, as if just loaded; and a folder. At the end everything must
/// have been given back.
pub struct Fake {
    pub domain: Domain,
    folder: PathBuf,
    handle: *mut c_void,
    is_member: bool,
    _alone: MutexGuard<'static, ()>,
}

fn open(folder: PathBuf, is_member: bool) -> Fake {
    let domain = Domain::open_or_create_at(&folder).expect("a domain");
    open_in(domain, folder, is_member)
}

fn open_in(domain: Domain, folder: PathBuf, is_member: bool) -> Fake {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let name = std::ffi::CString::new(library().to_str().expect("UTF-8")).expect("no NUL");
    // SAFETY: a C string.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null());
    let fake = Fake { domain, folder, handle, is_member, _alone: alone };
    fake.set_shut(false);
    fake.delay(Duration::ZERO);
    fake.break_context(0);
    for (which, value) in
        [(99, 1), (100, 0), (102, 1), (103, 1), (113, 1), (-1, 0), (-2, 0), (-3, 0), (-4, 0)]
    {
        fake.set_attribute(which, value);
    }
    fake
}

impl Fake {
    pub fn new(test: &str) -> Fake {
        let folder = PathBuf::from(format!("/dev/shm/outlive-gpu-{}-{test}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder of our own");
        std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .expect("ours");
        open(folder, false)
    }

    /// In a program that a test has started.
    pub fn member() -> Fake {
        open(std::env::var_os(MEMBER).expect("set by the test").into(), true)
    }

    /// In a domain that another value owns and removes.
    pub fn in_domain(domain: Domain, folder: PathBuf) -> Fake {
        open_in(domain, folder, true)
    }

    /// Starts this test program once more, in the same domain, as what its `main` makes of `role`.
    pub fn start(&self, role: &str) -> std::process::Child {
        let mut program = std::process::Command::new(std::env::current_exe().expect("a path"));
        program.arg(role).env(MEMBER, &self.folder).spawn().expect("starts")
    }

    fn function(&self, name: &CStr) -> *mut c_void {
        // SAFETY: a library that is never unloaded.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        assert!(!found.is_null(), "{name:?}");
        found
    }

    /// All streams stop before whatever they would do next, until what is given is dropped: also by
    /// a test that fails.
    #[must_use]
    pub fn shut(&self) -> Shut<'_> {
        self.set_shut(true);
        Shut(self)
    }

    fn set_shut(&self, shut: bool) {
        // SAFETY: so it is declared.
        let set: extern "C" fn(c_int) =
            unsafe { std::mem::transmute(self.function(c"outlive_fake_shut")) };
        set(shut.into());
    }

    /// Copies rest after each 64 KiB.
    pub fn delay(&self, delay: Duration) {
        // SAFETY: so it is declared.
        let set: extern "C" fn(u64) =
            unsafe { std::mem::transmute(self.function(c"outlive_fake_delay")) };
        set(delay.as_micros() as u64);
    }

    pub fn break_context(&self, code: c_int) {
        // SAFETY: so it is declared.
        let set: extern "C" fn(c_int) =
            unsafe { std::mem::transmute(self.function(c"outlive_fake_break")) };
        set(code);
    }

    pub fn set_attribute(&self, which: c_int, value: c_int) {
        // SAFETY: so it is declared.
        let set: extern "C" fn(c_int, c_int) =
            unsafe { std::mem::transmute(self.function(c"outlive_fake_set_attribute")) };
        set(which, value);
    }

    /// The call after `good` others of that function returns `code`.
    pub fn fail(&self, function: &CStr, good: u32, code: c_int) {
        // SAFETY: so it is declared.
        let set: unsafe extern "C" fn(*const c_char, u32, c_int) =
            unsafe { std::mem::transmute(self.function(c"outlive_fake_fail")) };
        // SAFETY: a C string.
        unsafe { set(function.as_ptr(), good, code) };
    }

    pub fn count(&self, what: What) -> u64 {
        // SAFETY: so it is declared.
        let count: extern "C" fn(c_int) -> u64 =
            unsafe { std::mem::transmute(self.function(c"outlive_fake_count")) };
        count(what as c_int)
    }

    /// The fake driver's; or that of the driver which `OUTLIVE_GPU_DRIVER` names, for tests that
    /// need no fake.
    pub fn gpu(&self) -> Gpu {
        let library = std::env::var_os(REAL).map_or_else(library, PathBuf::from);
        Driver::load(&library).and_then(|driver| driver.gpu(0)).expect("the driver has a GPU")
    }

    /// 1, or 0 if another driver is tested, which tells nothing of itself.
    pub fn is_fake(&self) -> u64 {
        std::env::var_os(REAL).is_none().into()
    }

    pub fn topic(&self, gpu: &Gpu) -> PinnedTopic {
        let options = Topic::options().durability(Durability::Persistent);
        PinnedTopic::new(gpu, options.open_or_create(&self.domain, "frames").expect("a topic"))
    }

    pub fn device_topic(&self, gpu: &Gpu) -> DeviceTopic {
        let options = DeviceTopic::<u8>::options().durability(Durability::Persistent);
        let topic = options.open_or_create(&self.domain, "images").expect("a topic");
        DeviceTopic::new(gpu, &self.domain, topic).expect("blocks")
    }

    /// Sockets of the processes that answer for blocks.
    pub fn sockets(&self) -> usize {
        let names =
            std::fs::read_dir(&self.folder).expect("ours").flatten().map(|entry| entry.file_name());
        names.filter(|name| name.to_string_lossy().starts_with(".gpu-")).count()
    }

    /// Nothing of the driver's is left, and nothing was done that it forbids.
    pub fn expect_clean(&self) {
        let left = [
            What::Registered,
            What::Streams,
            What::Allocations,
            What::Contexts,
            What::Events,
            What::Modules,
            What::Blocks,
        ];
        let counts = left.map(|what| self.count(what));
        assert_eq!(
            counts, [0; 7],
            "registered, streams, allocations, contexts, events, modules, blocks"
        );
        assert_eq!(self.count(What::Violations), 0);
    }
}

/// Streams are held.
pub struct Shut<'f>(&'f Fake);

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.set_shut(false);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        if !self.is_member {
            std::fs::remove_dir_all(&self.folder).ok();
        }
    }
}

/// Returns bytes that tell their message and their place.
pub fn pattern(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (number.wrapping_mul(0x9E37_79B9) ^ at ^ at >> 8) as u8).collect()
}

/// Device memory with that in it.
pub fn on_device(gpu: &Gpu, stream: &Stream, bytes: &[u8]) -> DeviceMemory {
    let mut memory = DeviceMemory::new(gpu, bytes.len()).expect("memory");
    memory.write(bytes, stream).expect("written");
    memory
}

pub fn bytes_of(memory: &DeviceMemory, stream: &Stream) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(&mut bytes, stream).expect("read");
    bytes
}

pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns bytes that lie anywhere on the device, through a copy of them.
pub fn bytes_at(
    gpu: &Gpu,
    at: DevicePointer,
    len: usize,
    stream: &Stream,
    copy: impl FnOnce(DevicePointer),
) -> Vec<u8> {
    assert_ne!(at, 0);
    let memory = DeviceMemory::new(gpu, len.max(1)).expect("memory");
    copy(memory.address());
    let mut bytes = vec![0; len];
    memory.read(&mut bytes, stream).expect("read");
    bytes
}

/// Returns how many descriptors this process has open.
pub fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("there").count()
}
