//! Threads that must not wait for a page: after `prefault`, the fast paths are no page faults, as
//! getrusage(2) counts them, and no system calls: a filter kills a process that makes one.

use std::time::Duration;

use outlive::jobs::JobQueue;
use outlive::pool::Pool;
use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::{State, Writer};
use outlive::sync::{Mutex, RwLock, Semaphore};
use outlive::topic::{Subscriber, Topic};
use outlive::{Domain, Error, SendError};

use crate::board::Board;
use crate::child::{Child, End, exit_now};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    a_million_operations_are_no_fault_and_no_system_call: 120,
    long_messages_are_no_fault_and_no_system_call: 60,
    readers_that_are_stopped_are_no_fault_and_no_system_call,
    many_jobs_are_no_fault_and_no_system_call,
    without_it_there_are_faults,
    the_filter_kills,
    another_process_s_memory_is_brought_in,
    the_first_message_takes_no_memory_of_the_heap,
    a_stack_that_is_too_long_is_told,
    what_there_is_no_room_for_is_told,
    memory_is_locked,
    a_limit_of_locked_memory_is_told,
    a_death_half_way_leaves_what_works: 60,
);

/// What a filter lets through: the count itself, and the end.
const ALLOWED: [libc::c_long; 2] = [libc::SYS_getrusage, libc::SYS_exit_group];

/// From now on, any other system call of this process kills it.
fn forbid_system_calls() {
    let statement = |code: u32, jt, jf, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (at, call) in ALLOWED.iter().enumerate() {
        let to_allow = (ALLOWED.len() - at) as u8;
        filter.push(statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            to_allow,
            0,
            *call as u32,
        ));
    }
    filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS));
    filter.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live until the call returns.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Returns the calling thread's page faults so far, minor and major.
fn faults() -> i64 {
    // SAFETY: all zero is a value of it.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the place is valid.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) }, 0);
    usage.ru_minflt + usage.ru_majflt
}

/// Runs `operation` so many times under the filter, and ends the process: with 0, or with the number
/// of page faults.
fn end_with_faults(times: u64, operation: impl FnMut(u64)) -> ! {
    end_with_faults_after(|| (), times, operation)
}

/// The same, after what `prepare` does under the filter.
fn end_with_faults_after(prepare: impl FnOnce(), times: u64, mut operation: impl FnMut(u64)) -> ! {
    // What these two functions use themselves.
    faults();
    forbid_system_calls();
    prepare();
    let before = faults();
    (0..times).for_each(&mut operation);
    let count = faults() - before;
    exit_now(count.min(99) as i32)
}

/// Everything that a control loop uses.
struct Things {
    domain: Domain,
    mutex: Mutex<u64>,
    rw_lock: RwLock<u64>,
    semaphore: Semaphore,
    topic: Topic<[u8]>,
    queue: Queue<[u8]>,
    pool: Pool,
    state: State<[u64; 8]>,
    jobs: JobQueue<[u8]>,
    service: Service<[u8], [u8]>,
}

impl Things {
    fn open(world: &World) -> Things {
        let domain = world.domain();
        Things {
            mutex: Mutex::options(0).open_or_create(&domain, "mutex").expect("opens"),
            rw_lock: RwLock::options(0).open_or_create(&domain, "rw").expect("opens"),
            semaphore: Semaphore::options(1).open_or_create(&domain, "sem").expect("opens"),
            topic: Topic::options().depth(16).open_or_create(&domain, "topic").expect("opens"),
            queue: Queue::open_or_create(&domain, "queue").expect("opens"),
            pool: Pool::open_or_create(&domain, "pool").expect("opens"),
            jobs: JobQueue::open_or_create(&domain, "jobs").expect("opens"),
            service: Service::open_or_create(&domain, "service").expect("opens"),
            state: State::options().initial(&[0; 8]).open_or_create(&domain, "s").expect("opens"),
            domain,
        }
    }

    /// The loop: each operation once, with messages of that length.
    fn run(&self, times: u64, len: usize, is_prefaulted: bool) -> ! {
        let publisher = self.topic.publisher().expect("a ring");
        let mut subscriber = self.topic.subscriber().expect("a slot");
        let (sender, mut receiver) =
            (self.queue.sender().expect("a sender"), self.queue.receiver().expect("none"));
        let mut writer = self.state.writer().expect("none lives");
        let client = self.service.client().expect("a slot");
        let mut server = self.service.server().expect("none");
        // Not of zeroes, which would be pages of the system's that are not there yet.
        let (message, mut received) = (vec![7; len], vec![1; len]);
        if is_prefaulted {
            publisher.prefault(2, len).expect("room");
            self.queue.prefault(64, len).expect("room");
            self.pool.prefault(64, len).expect("room");
            writer.prefault(2).expect("room");
            self.jobs.prefault(64).expect("room");
            client.prefault(4, len).expect("room");
            server.prefault(4, len).expect("room");
            self.domain.prefault(64 << 10).expect("brought in");
            // Some systems take pages of code away that are seldom used, at any time. This brings
            // nothing in; where it is refused, they may do so.
            // SAFETY: no pointers are passed.
            unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_ONFAULT) };
        }
        end_with_faults(times, |turn| {
            *self.mutex.lock().unwrap() += 1;
            *self.rw_lock.write().unwrap() += 1;
            assert!(*self.rw_lock.read().unwrap() > 0);
            drop(self.semaphore.try_acquire().unwrap());
            let mut loan = publisher.loan(len).unwrap();
            loan[0] = turn as u8;
            publisher.publish(loan).unwrap();
            publisher.publish(&message[..]).unwrap();
            assert_eq!(subscriber.try_recv().unwrap().unwrap()[0], turn as u8);
            assert_eq!(subscriber.try_recv().unwrap().unwrap().len(), len);
            sender.send(&message).unwrap();
            receiver.recv_into(&mut received).unwrap();
            let mut object = self.pool.alloc(len).unwrap();
            object[0] = 1;
            drop(object);
            writer.set(&[turn; 8]).unwrap();
            assert_eq!(self.state.get().unwrap(), [turn; 8]);
            self.jobs.put(&message[..48]).unwrap();
            self.jobs.try_take().unwrap().unwrap().done().unwrap();
            let call = client.begin(&message).unwrap();
            let request = server.try_next().unwrap().unwrap();
            assert_eq!(request.len(), len);
            request.reply(&received).unwrap();
            assert_eq!(call.wait().unwrap().len(), len);
        })
    }
}

fn a_million_operations_are_no_fault_and_no_system_call(world: &World) {
    let child = Child::start(|| Things::open(world).run(1_000_000, 48, true));
    assert_eq!(child.wait_however_long(), End::Code(0), "faults, or SIGSYS for a system call");
}

fn long_messages_are_no_fault_and_no_system_call(world: &World) {
    for (times, len) in [(100_000, 1000), (20_000, 20_000), (500, 3 << 20)] {
        let child = Child::start(|| Things::open(world).run(times, len, true));
        assert_eq!(
            child.wait_however_long(),
            End::Code(0),
            "{len}: faults, or SIGSYS for a system call"
        );
    }
}

/// Takes `readers` into `get`, each of which pins a buffer of its own and stays there, and then
/// does the rest.
fn among_stopped_readers(
    state: &State<[u8]>,
    writer: &mut Writer<[u8]>,
    readers: u64,
    rest: &dyn Fn(&mut Writer<[u8]>),
) {
    if readers == 0 {
        return rest(writer);
    }
    let value = [readers as u8; 8000];
    writer.set(&value).expect("a buffer");
    let writer = core::cell::RefCell::new(writer);
    let more = || among_stopped_readers(state, &mut writer.borrow_mut(), readers - 1, rest);
    let (read, _) = state.get_as_if_stopped(more).expect("pinned");
    assert_eq!(read, value);
}

/// Each reader that is stopped in `get` keeps a buffer: the writer has made as many before.
fn readers_that_are_stopped_are_no_fault_and_no_system_call(world: &World) {
    let domain = world.domain();
    let sets = |name: &'static str, is_prefaulted: bool| {
        let domain = &domain;
        Child::start(move || {
            let state = State::<[u8]>::options().capacity(8000).open_or_create(domain, name);
            let state = state.expect("opens");
            let mut writer = state.writer().expect("none lives");
            if is_prefaulted {
                writer.prefault(20).expect("room");
                assert!(matches!(writer.prefault(65), Err(SendError::NoSpace { .. })));
            }
            domain.prefault(256 << 10).expect("brought in");
            let readers = if is_prefaulted { 20 } else { 3 };
            among_stopped_readers(&state, &mut writer, readers, &|writer| {
                let value = [1; 8000];
                writer.set(&value).expect("a buffer");
                end_with_faults(10_000, |_| {
                    writer.set(&value).expect("a buffer");
                })
            });
        })
        .wait_however_long()
    };
    assert_eq!(sets("made", true), End::Code(0), "faults, or SIGSYS for a system call");
    assert_eq!(sets("grows", false), End::Signal(libc::SIGSYS), "it makes a buffer");
}

fn many_jobs_are_no_fault_and_no_system_call(world: &World) {
    let domain = world.domain();
    let turns = |name: &'static str, is_prefaulted: bool| {
        let domain = &domain;
        Child::start(move || {
            let jobs = JobQueue::<[u8]>::options().max_jobs(500).open_or_create(domain, name);
            let jobs = jobs.expect("opens");
            if is_prefaulted {
                jobs.prefault(300).expect("room");
                assert!(matches!(jobs.prefault(501), Err(SendError::NoSpace { .. })));
            }
            domain.prefault(64 << 10).expect("brought in");
            let job = [7; 100];
            let mut held: [_; 300] = core::array::from_fn(|_| None);
            // What the allocator needs for the copies.
            let spare: Vec<_> = (0..310).map(|_| vec![1_u8; 100]).collect();
            drop(core::hint::black_box(spare));
            end_with_faults(1000, |turn| {
                let at = (turn % 300) as usize;
                if let Some(job) = held[at].take() {
                    outlive::jobs::Job::done(job).expect("ours");
                }
                jobs.try_put(&job).expect("a slot");
                held[at] = jobs.try_take().expect("whole");
            })
        })
        .wait_however_long()
    };
    assert_eq!(turns("made", true), End::Code(0), "faults, or SIGSYS for a system call");
    assert_eq!(turns("grows", false), End::Signal(libc::SIGSYS), "it makes slots");
}

fn without_it_there_are_faults(world: &World) {
    let child = Child::start(|| Things::open(world).run(100, 48, false));
    match child.wait_however_long() {
        End::Code(count) => assert!(count > 0 && count < 100, "{count}"),
        End::Signal(signal) => assert_eq!(signal, libc::SIGSYS),
    }
}

fn the_filter_kills(_: &World) {
    let child = Child::start(|| {
        end_with_faults(1, |_| {
            // SAFETY: no pointers are passed.
            unsafe { libc::getppid() };
        })
    });
    assert_eq!(child.wait_however_long(), End::Signal(libc::SIGSYS));
}

/// A subscriber reads in pages of its own mapping, which another process's publisher has made.
fn another_process_s_memory_is_brought_in(world: &World) {
    const LEN: usize = 100_000;
    let topic = Topic::<[u8]>::options().depth(32).open_or_create(&world.domain(), "t");
    let topic = topic.expect("opens");
    let publisher = topic.publisher().expect("a ring");
    publisher.prefault(4, LEN).expect("room");
    let board = Board::new();
    let reading = |is_prefaulted: bool, part: usize| {
        let (domain, board) = (world.domain(), &board);
        Child::start(move || {
            let topic = Topic::<[u8]>::open(&domain, "t").expect("there");
            let mut subscriber: Subscriber = topic.subscriber().expect("a slot");
            if is_prefaulted {
                domain.prefault(16 << 10).expect("brought in");
            }
            board.set(part, 1);
            let mut sum = 0;
            end_with_faults(300, |_| {
                loop {
                    if let Some(sample) = subscriber.try_recv().expect("whole") {
                        sum += sample.iter().map(|byte| u64::from(*byte)).sum::<u64>();
                        break;
                    }
                    core::hint::spin_loop();
                }
            })
        })
    };
    let mut children = [reading(true, 0), reading(false, 1)];
    board.reach(0, 1);
    board.reach(1, 1);
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    let mut ends = [None, None];
    while ends.contains(&None) {
        publisher.publish(&vec![1; LEN][..]).expect("published");
        assert!(std::time::Instant::now() < deadline, "{ends:?}");
        for (child, end) in children.iter_mut().zip(&mut ends) {
            if end.is_none() {
                *end = child.has_ended().then(|| child.wait());
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(ends[0], Some(End::Code(0)));
    assert_ne!(ends[1], Some(End::Code(0)), "the same pages are faults without");
}

/// Takes so much memory of the heap in small pieces, and then until the next piece ends in another page.
fn use_up_the_heap(pieces: usize) {
    for taken in 0.. {
        // SAFETY: a plain allocation, which is never freed.
        let end = unsafe { libc::malloc(24) } as usize + 24;
        if taken >= pieces && (end + 32) / 4096 > end / 4096 {
            return;
        }
    }
}

/// What a publisher and a subscriber keep of the rings is there before their first message.
fn the_first_message_takes_no_memory_of_the_heap(world: &World) {
    let topic = Topic::<[u8]>::options().open_or_create(&world.domain(), "t").expect("opens");
    for later in [false, true] {
        let domain = world.domain();
        let child = Child::start(|| {
            let mut subscriber = topic.subscriber().expect("a slot");
            let publisher = topic.publisher().expect("a ring");
            let another = later.then(|| topic.publisher().expect("a ring"));
            domain.prefault(16 << 10).expect("brought in");
            // What was freed before, and room for what follows under the filter.
            use_up_the_heap(20_000);
            end_with_faults_after(
                || use_up_the_heap(8),
                10,
                |_| {
                    publisher.publish(b"one").expect("published");
                    if let Some(another) = &another {
                        another.publish(b"two").expect("published");
                    }
                    while subscriber.try_recv().expect("whole").is_some() {}
                },
            )
        });
        assert_eq!(child.wait_however_long(), End::Code(0), "several: {later}");
    }
}

fn a_stack_that_is_too_long_is_told(world: &World) {
    let domain = world.domain();
    let told = std::thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(move || (domain.prefault(128 << 10), domain.prefault(1 << 20)))
        .expect("started")
        .join()
        .expect("no overflow");
    assert_eq!(told.0, Ok(()));
    assert!(matches!(told.1, Err(Error::InvalidOption { what: "the bytes of stack", .. })));
}

fn what_there_is_no_room_for_is_told(world: &World) {
    let domain = world.domain();
    let topic = Topic::<[u8]>::options().depth(4).max_bytes(1 << 20).open_or_create(&domain, "t");
    let topic = topic.expect("opens");
    let publisher = topic.publisher().expect("a ring");
    publisher.publish(&[9; 5000][..]).expect("published");
    let refused = publisher.prefault(100, 100_000);
    assert!(matches!(refused, Err(SendError::NoSpace { .. })), "{refused:?}");
    let text = refused.expect_err("too much").to_string();
    assert!(text.contains("prefault less") && !text.contains("for 0 bytes"), "{text}");
    let mut late = topic.subscriber_with(Subscriber::options().history(1)).expect("a slot");
    assert_eq!(*late.try_recv().expect("whole").expect("kept"), [9; 5000], "nothing given up");
    publisher.publish(&[9; 5000][..]).expect("still works");

    let queue = Queue::<[u8]>::options().max_bytes(1 << 20).open_or_create(&domain, "q");
    let queue = queue.expect("opens");
    let refused = queue.prefault(1 << 20, 32);
    assert!(matches!(refused, Err(SendError::NoSpace { .. })), "{refused:?}");
    let refused = queue.prefault(100, 100_000);
    assert!(matches!(refused, Err(SendError::NoSpace { .. })), "{refused:?}");
    queue.sender().expect("a sender").send(b"still works").expect("room");

    // The system refuses pages, as where the file system is full: an error, and no signal.
    let child = Child::start(|| {
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
        // SAFETY: the place is valid.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
        let queue = Queue::<[u8]>::open_or_create(&domain, "large").expect("opens");
        let refused = queue.prefault(1000, 100_000);
        assert!(matches!(refused, Err(SendError::NoSpace { .. })), "{refused:?}");
        let service = Service::<[u8], [u8]>::open_or_create(&domain, "service").expect("opens");
        let refused = service.prefault(1000, 100_000);
        assert!(matches!(refused, Err(SendError::NoSpace { .. })), "{refused:?}");
    });
    assert_eq!(child.wait_however_long(), End::Code(0));
}

/// Returns the KiB that this process has locked.
fn locked() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a /proc");
    let line = status.lines().find(|line| line.starts_with("VmLck:")).expect("a figure");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

fn set_memlock(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the place is valid.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) }, 0);
}

fn memory_is_locked(world: &World) {
    let child = Child::start(|| {
        let domain = world.domain();
        let queue = Queue::<[u8]>::options().max_bytes(6 << 30).open_or_create(&domain, "q");
        let queue = queue.expect("opens");
        queue.prefault(1000, 1000).expect("room");
        domain.lock_memory(32 << 10).expect("within the limit");
        let kib = locked();
        assert!((1000..4096).contains(&kib), "{kib} KiB, of 9 GiB that are reserved");
        drop(queue);
        assert!(locked() < kib, "what is closed is not locked");
    });
    assert_eq!(child.wait_however_long(), End::Code(0));
}

fn a_limit_of_locked_memory_is_told(world: &World) {
    let child = Child::start(|| {
        let domain = world.domain();
        let pool = Pool::open_or_create(&domain, "p").expect("opens");
        pool.prefault(1000, 1000).expect("room");
        give_up_capabilities();
        for limit in [64 << 10, 0] {
            set_memlock(limit);
            let refused = domain.lock_memory(0);
            let Err(error @ Error::System { .. }) = refused else { panic!("{refused:?}") };
            assert!(error.to_string().contains("RLIMIT_MEMLOCK"), "{error}");
        }
        domain.prefault(32 << 10).expect("needs no right");
    });
    assert_eq!(child.wait_however_long(), End::Code(0));
}

/// From now on this process has no right beyond those of its user.
fn give_up_capabilities() {
    let header = [0x2008_0522_u32, 0];
    let none = [0_u32; 6];
    // SAFETY: a header of version 3, and two sets of three words.
    let done = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// A process is killed at any time while it makes memory: others use what was made, and what it had
/// in hand comes back.
fn a_death_half_way_leaves_what_works(world: &World) {
    let domain = world.domain();
    let (topic, queue) = (
        Topic::<[u8]>::options().depth(8).max_bytes(64 << 20).open_or_create(&domain, "t"),
        Queue::<[u8]>::options().max_bytes(64 << 20).open_or_create(&domain, "q"),
    );
    let (topic, queue) = (topic.expect("opens"), queue.expect("opens"));
    let mut random = Random::from_seed(5);
    for _ in 0..40 {
        let board = Board::new();
        let mut child = Child::start(|| {
            let publisher = topic.publisher().expect("a ring");
            board.set(0, 1);
            publisher.prefault(20, 200_000).expect("room");
            queue.prefault(150, 200_000).expect("room");
            domain.prefault(16 << 10).expect("brought in");
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        child.kill();
        let publisher = topic.publisher().expect("the dead one's ring");
        publisher.prefault(20, 200_000).expect("the same memory");
        publisher.publish(&[1; 200_000][..]).expect("published");
        domain.sweep(false).expect("swept");
        queue.prefault(150, 200_000).expect("what the dead one held is free");
        domain.prefault(16 << 10).expect("brought in");
    }
    let usage = queue.counters().expect("whole");
    assert_eq!(usage.sent, 0);
}
