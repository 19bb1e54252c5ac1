//! The programs on machines that share this machine's network.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use outlive_testnet::{Child, Folder, eventually, missing, skip};

use crate::resource::Resource;
use crate::world::{Etcd, LONG, Machine, SHORT, SOON, signal};

fn run(mut command: Command, args: &[&str]) -> Output {
    command.args(args).output().expect("runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

#[test]
fn codes_are_those_of_outlive_lock() {
    let Some(etcd) = Etcd::start("codes_are_those_of_outlive_lock") else { return };
    let (machine, url) = (Machine::new(), etcd.url(LONG));
    let lock = |more: &[&str], args: &[&str]| {
        let more: Vec<&str> = more.iter().copied().chain(["a"]).collect();
        run(machine.program("lock", &url, &more), args)
    };
    assert_eq!(code(&lock(&[], &["sh", "-c", "exit 3"])), 3);
    assert_eq!(code(&lock(&[], &["sh", "-c", "kill -9 $$"])), 128 + 9);
    assert_eq!(code(&lock(&[], &["/no/such/program"])), 127);
    assert_eq!(code(&lock(&[], &["/etc/passwd"])), 126);
    assert_eq!(code(&run(machine.program("lock", "http://x", &["a"]), &["true"])), 2);
    assert_eq!(code(&run(machine.program("lock", "etcd://127.0.0.1:1", &["a"]), &["true"])), 125);
    assert_eq!(code(&run(machine.program("lock", &url, &[".."]), &["true"])), 125);

    let resource = Resource::new();
    let _holder = machine.start("lock", &url, &["a"], resource.address);
    resource.wait_for(1);
    for other in [&machine, &Machine::new()] {
        let nonblock = run(other.program("lock", &url, &["--nonblock", "a"]), &["true"]);
        assert_eq!(code(&nonblock), 124, "{nonblock:?}");
        assert!(String::from_utf8_lossy(&nonblock.stderr).contains("held by"), "{nonblock:?}");
        let timed = run(other.program("lock", &url, &["-w", "100ms", "-E", "9", "a"]), &["true"]);
        assert_eq!(code(&timed), 9);
    }
    let sem = |args: &[&str], command: &[&str]| run(machine.program("sem", &url, args), command);
    assert_eq!(code(&sem(&["s"], &["true"])), 2, "nobody has said how many");
    assert_eq!(code(&sem(&["--permits", "2", "s"], &["sh", "-c", "exit 4"])), 4);
    assert_eq!(code(&sem(&["s"], &["true"])), 0);
    assert_eq!(code(&sem(&["--permits", "3", "s"], &["true"])), 125);
}

/// No server is there, or one that takes connections and says nothing.
#[test]
fn without_a_server_the_program_gives_up_in_the_time_that_it_was_given() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("etcd://{}", silent.local_addr().expect("bound"));
    let machine = Machine::new();
    for url in ["etcd://127.0.0.1:1", &silent] {
        for which in ["lock", "sem"] {
            for option in ["--timeout=0.2", "--nonblock"] {
                let begun = Instant::now();
                let output = run(machine.program(which, url, &[option, "a"]), &["true"]);
                assert_eq!(code(&output), 125, "{output:?}");
                // A call that waited for the server would never return; a busy machine takes seconds.
                let took = begun.elapsed();
                assert!(took < Duration::from_secs(60), "{which} {option} {url}: {took:?}");
            }
        }
    }
}

#[test]
fn a_group_without_a_domain_counts() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-lock-cluster"));
    command.args([
        "--cluster",
        "etcd://127.0.0.1:1",
        "--group",
        "no-such-group",
        "--nonblock",
        "a",
    ]);
    let output = run(command, &["true"]);
    assert_eq!(code(&output), 125);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-group"), "{output:?}");
}

#[test]
fn the_cluster_is_said_by_the_option_alone() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-lock-cluster"));
    command.env("OUTLIVE_CLUSTER", "etcd://127.0.0.1:1");
    assert_eq!(code(&run(command, &["--nonblock", "a", "true"])), 2);
}

#[test]
fn fences_grow_and_signals_are_passed_on() {
    let Some(etcd) = Etcd::start("fences_grow_and_signals_are_passed_on") else { return };
    let url = etcd.url(LONG);
    let mut last = 0;
    for machine in [Machine::new(), Machine::new(), Machine::new()] {
        for _ in 0..3 {
            let command = machine.program("lock", &url, &["a"]);
            let output = run(command, &["sh", "-c", "echo $OUTLIVE_FENCE"]);
            let fence = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
            assert!(last < fence, "{last}, then {fence}");
            last = fence;
        }
    }
    let machine = Machine::new();
    let mut command = machine.program("lock", &url, &["a"]);
    let ready = machine.folder.join("ready");
    command.args(["sh", "-c", "trap 'exit 7' TERM; : >\"$0\"; while :; do sleep 0.05; done"]);
    command.arg(&ready);
    let mut child = Child::start(command).expect("starts");
    assert!(eventually(SOON, || ready.exists()));
    assert_eq!(child.end(SOON).and_then(|status| status.code()), Some(7));
}

#[test]
fn a_killed_holder_is_told_on_its_machine_at_once_and_on_others_after_the_lease() {
    let test = "a_killed_holder_is_told_on_its_machine_at_once_and_on_others_after_the_lease";
    let Some(etcd) = Etcd::start(test) else { return };
    let (here, there) = (Machine::new(), Machine::new());
    let resource = Resource::new();
    // A lease far longer than this test waits.
    let long = etcd.url(3600);
    let mut first = here.start("lock", &long, &["a"], resource.address);
    resource.wait_for(1);
    let second = here.start("lock", &long, &["a"], resource.address);
    first.child.kill();
    resource.wait_for(2);
    assert!(second.said().contains("died"), "{}", second.said());
    drop(second);

    let short = etcd.url(SHORT);
    let mut third = here.start("lock", &short, &["b"], resource.address);
    resource.wait_for(3);
    let mut fourth = there.start("lock", &short, &["b"], resource.address);
    third.child.kill();
    resource.wait_for(4);
    assert!(fourth.said().contains("died"), "{}", fourth.said());
    // It told its command. Ended in order, it is no news to the next.
    fourth.child.end(SOON);
    let output = run(here.program("lock", &short, &["b"]), &["true"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    resource.assert_one_at_a_time();
}

#[test]
fn a_stopped_program_does_not_leave_its_command_running() {
    let Some(etcd) = Etcd::start("a_stopped_program_does_not_leave_its_command_running") else {
        return;
    };
    let (here, there) = (Machine::new(), Machine::new());
    let (resource, url) = (Resource::new(), etcd.url(SHORT));
    let mut first = here.start("lock", &url, &["a"], resource.address);
    resource.wait_for(1);
    let beside = here.start("lock", &url, &["a"], resource.address);
    first.child.stop();
    // On its own machine others go past the gate.
    resource.wait_for(2);
    assert!(beside.said().contains("died"), "{}", beside.said());
    let mut third = there.start("lock", &url, &["a"], resource.address);
    drop(beside);
    resource.wait_for(3);
    first.child.go_on();
    let ended = first.child.wait(SOON).expect("it ends");
    assert!(!ended.success());
    assert!(first.said().contains("the lock was lost"), "{}", first.said());
    // It takes nothing away from the holder.
    resource.wait_again(resource.visits()[2].fence);
    assert!(third.child.is_running());
    resource.assert_one_at_a_time();
}

#[test]
fn a_killed_watchdog_is_replaced() {
    let Some(etcd) = Etcd::start("a_killed_watchdog_is_replaced") else { return };
    let (here, there) = (Machine::new(), Machine::new());
    let (resource, url) = (Resource::new(), etcd.url(SHORT));
    let mut first = here.start("lock", &url, &["a"], resource.address);
    resource.wait_for(1);
    assert!(eventually(SOON, || first.watchdog().is_some()));
    let watchdog = first.watchdog();
    signal(watchdog.expect("is there"), libc::SIGKILL);
    assert!(eventually(SOON, || first.watchdog().is_some_and(|new| Some(new) != watchdog)));
    resource.wait_again(resource.visits()[0].fence);
    // Just started, it may not be ready: it is long before the lease ends.
    first.child.stop();
    let _second = there.start("lock", &url, &["a"], resource.address);
    resource.wait_for(2);
    resource.assert_one_at_a_time();
}

#[test]
fn where_the_watchdog_is_stopped_as_well_the_fence_is_the_answer() {
    let test = "where_the_watchdog_is_stopped_as_well_the_fence_is_the_answer";
    let Some(etcd) = Etcd::start(test) else { return };
    let (here, there) = (Machine::new(), Machine::new());
    let (resource, url) = (Resource::new(), etcd.url(SHORT));
    let mut first = here.start("lock", &url, &["a"], resource.address);
    let old = resource.wait_for(1);
    assert!(eventually(SOON, || first.watchdog().is_some()));
    let watchdog = first.watchdog().expect("is there");
    // The watchdog first: it would notice the other one.
    signal(watchdog, libc::SIGSTOP);
    first.child.stop();
    let _second = there.start("lock", &url, &["a"], resource.address);
    resource.wait_for(2);
    // The command goes on and is refused.
    let refused = || resource.visits().iter().any(|visit| visit.fence == old && visit.refused > 0);
    assert!(eventually(SOON, refused));
    // Going on, the watchdog ends it at once.
    signal(watchdog, libc::SIGCONT);
    let command = first.children().into_iter().find(|pid| *pid != watchdog).expect("is there");
    let ended = || {
        std::fs::read_to_string(format!("/proc/{command}/stat"))
            .is_ok_and(|stat| stat.contains(") Z "))
    };
    assert!(eventually(SOON, ended));
    first.child.go_on();
    assert!(first.child.wait(SOON).is_some());
}

#[test]
fn the_commands_group_ends_with_a_killed_program() {
    let Some(etcd) = Etcd::start("the_commands_group_ends_with_a_killed_program") else { return };
    let machine = Machine::new();
    let file = machine.folder.join("pid");
    let mut command = machine.program("lock", &etcd.url(LONG), &["a"]);
    command.args(["sh", "-c", "sleep 1000 & echo $! >\"$0.new\"; mv \"$0.new\" \"$0\"; wait"]);
    command.arg(&file).stdin(std::process::Stdio::null());
    let mut child = Child::start(command).expect("starts");
    assert!(eventually(SOON, || file.exists()));
    let pid: u32 = std::fs::read_to_string(&file).expect("is there").trim().parse().expect("a pid");
    child.kill();
    let gone = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_or(true, |stat| stat.contains(") Z "))
    };
    assert!(eventually(SOON, gone));
}

#[test]
fn a_server_that_is_killed_and_back_in_time_costs_no_lock() {
    let Some(mut etcd) = Etcd::start("a_server_that_is_killed_and_back_in_time_costs_no_lock")
    else {
        return;
    };
    let (here, there) = (Machine::new(), Machine::new());
    let (resource, url) = (Resource::new(), etcd.url(LONG));
    let mut first = here.start("lock", &url, &["a"], resource.address);
    let fence = resource.wait_for(1);
    let _waiter = there.start("lock", &url, &["a"], resource.address);
    for _ in 0..3 {
        etcd.server.kill();
        resource.wait_again(fence);
        etcd.server.start_again();
        resource.wait_again(fence);
    }
    assert_eq!(resource.visits().len(), 1);
    first.child.end(SOON);
    resource.wait_for(2);
    resource.assert_one_at_a_time();
}

#[test]
fn a_server_that_is_stopped_for_longer_than_the_lease_costs_the_lock() {
    let test = "a_server_that_is_stopped_for_longer_than_the_lease_costs_the_lock";
    let Some(mut etcd) = Etcd::start(test) else { return };
    let (here, there) = (Machine::new(), Machine::new());
    let (resource, url) = (Resource::new(), etcd.url(2));
    let mut first = here.start("lock", &url, &["a"], resource.address);
    resource.wait_for(1);
    let second = there.start("lock", &url, &["a"], resource.address);
    // It waits. One that finds no server when it begins gives up.
    assert!(eventually(SOON, || etcd.leases() == 2));
    etcd.server.stop();
    let ended = first.child.wait(SOON).expect("it ends");
    assert!(!ended.success());
    assert_eq!(resource.visits().len(), 1);
    etcd.server.go_on();
    resource.wait_for(2);
    assert!(second.said().contains("lost its lease"), "{}", second.said());
    resource.assert_one_at_a_time();
}

#[test]
fn many_processes_of_a_machine_cost_one_lease() {
    let Some(etcd) = Etcd::start("many_processes_of_a_machine_cost_one_lease") else { return };
    let (machine, other) = (Machine::new(), Machine::new());
    let (resource, url) = (Resource::new(), etcd.url(LONG));
    let mut running: Vec<_> =
        (0..8).map(|_| machine.start("lock", &url, &["a"], resource.address)).collect();
    let mut seen = Vec::new();
    for count in 1..=8 {
        let fence = resource.wait_for(count);
        resource.wait_again(fence);
        seen.push(etcd.leases());
        let holder = format!("{fence}");
        // Whichever has it: the one whose command has that fence.
        let index = running
            .iter()
            .position(|running| {
                running.children().iter().any(|pid| {
                    std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
                        let text = String::from_utf8_lossy(&environ).into_owned();
                        text.split('\0').any(|var| var == format!("OUTLIVE_FENCE={holder}"))
                    })
                })
            })
            .expect("one has it");
        running.swap_remove(index).child.end(SOON);
    }
    assert_eq!(seen, [1; 8]);
    let _another = other.start("lock", &url, &["a"], resource.address);
    resource.wait_for(9);
    assert!(etcd.leases() <= 2);
    resource.assert_one_at_a_time();
}

#[test]
fn so_many_permits_and_no_more() {
    let Some(etcd) = Etcd::start("so_many_permits_and_no_more") else { return };
    let machines = [Machine::new(), Machine::new()];
    let (resource, url) = (Resource::new(), etcd.url(SHORT));
    let args = ["--permits", "2", "s"];
    let mut running: Vec<_> = (0..6)
        .map(|number| machines[number % 2].start("sem", &url, &args, resource.address))
        .collect();
    let mut said = Vec::new();
    for count in 2..=6 {
        resource.wait_for(count);
        // One that has a permit ends: killed, stopped past its lease, or in order.
        let index =
            running.iter().position(|running| running.watchdog().is_some()).expect("one has");
        let mut one = running.swap_remove(index);
        match count {
            3 => one.child.kill(),
            4 => {
                one.child.stop();
                assert!(eventually(SOON, || one.said().contains("cannot be kept")));
            }
            _ => drop(one.child.end(SOON)),
        }
        said.push(one.said());
    }
    said.extend(running.iter().map(|running| running.said()));
    assert_eq!(resource.most_at_once(), 2);
    // Each of the two permits that were not given back in order.
    let told = said.iter().filter(|said| said.contains("last holder died")).count();
    assert_eq!(told, 2, "{said:?}");
}

#[test]
fn never_two_while_all_are_killed_and_stopped_at_random() {
    let test = "never_two_while_all_are_killed_and_stopped_at_random";
    let Some(mut etcd) = Etcd::start(test) else { return };
    let machines = [Machine::new(), Machine::new(), Machine::new()];
    let (resource, url) = (Resource::new(), etcd.url(2));
    let mut seed = std::process::id();
    let mut random = move |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    let mut running = Vec::new();
    let end = Instant::now() + Duration::from_secs(20);
    let mut server_killed = Instant::now();
    // On a slow machine longer, until there were some holders.
    let has_seen = || resource.visits().len() > 5;
    while Instant::now() < end || !has_seen() && Instant::now() < end + SOON {
        while running.len() < 6 {
            let machine = &machines[random(3) as usize];
            running.push(machine.start("lock", &url, &["a"], resource.address));
        }
        std::thread::sleep(Duration::from_millis(u64::from(100 + random(300))));
        // The holder as often as any other one.
        let holder = running.iter().position(|running| running.watchdog().is_some());
        let any = random(6) as usize;
        let index = if random(2) == 0 { holder.unwrap_or(any) } else { any };
        match random(6) {
            0 | 1 => {
                running.swap_remove(index).child.kill();
            }
            2 => running[index].child.stop(),
            3 => running.iter_mut().for_each(|running| running.child.go_on()),
            4 => drop(running.swap_remove(index).child.end(Duration::from_secs(1))),
            _ if server_killed.elapsed() > Duration::from_secs(5) => {
                etcd.server.kill();
                etcd.server.start_again();
                server_killed = Instant::now();
            }
            _ => {}
        }
        running.retain_mut(|running| running.child.is_running());
    }
    let visits = resource.visits().len();
    assert!(visits > 5, "{visits} holders");
    resource.assert_one_at_a_time();
}

#[test]
fn a_user_with_a_password_and_a_server_with_a_certificate() {
    let test = "a_user_with_a_password_and_a_server_with_a_certificate";
    if let Some(why) = missing("openssl").or_else(|| missing("etcdctl")) {
        return skip(test, &why);
    }
    let folder = Folder::new("certificates");
    let script = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem \
        -addext basicConstraints=critical,CA:TRUE && \
        openssl req -newkey rsa:2048 -nodes -subj /CN=etcd -keyout key.pem -out csr.pem && \
        printf 'subjectAltName=IP:127.0.0.1\\nbasicConstraints=CA:FALSE\\n' >ext && \
        openssl x509 -req -in csr.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out cert.pem";
    let made = Command::new("sh").args(["-c", script]).current_dir(folder.path()).output();
    let made = made.expect("runs");
    assert!(made.status.success(), "{made:?}");
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let more = vec![
        format!("--cert-file={}", path("cert.pem")),
        format!("--key-file={}", path("key.pem")),
    ];
    let Some(etcd) = Etcd::start_as(test, None, more) else { return };
    let ctl = |args: &[&str]| {
        let endpoint = format!("https://{}", etcd.address);
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args([
            "--endpoints",
            &endpoint,
            "--cacert",
            &path("ca.pem"),
        ]);
        let output = command.args(args).output().expect("runs");
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    ctl(&["user", "add", "root:secret"]);
    ctl(&["user", "grant-role", "root", "root"]);
    ctl(&["role", "add", "locks"]);
    ctl(&["role", "grant-permission", "locks", "--prefix=true", "readwrite", "outlive/"]);
    ctl(&["user", "add", "me:mine"]);
    ctl(&["user", "grant-role", "me", "locks"]);
    ctl(&["auth", "enable"]);
    let (machine, ca) = (Machine::new(), path("ca.pem"));
    let address = etcd.address;
    let lock = |url: &str, password: Option<&str>| {
        let mut command = machine.program("lock", url, &["a"]);
        if let Some(password) = password {
            command.env("OUTLIVE_CLUSTER_PASSWORD", password);
        }
        // The command is not the cluster's user: it finds no password.
        run(command, &["sh", "-c", "test -z \"${OUTLIVE_CLUSTER_PASSWORD+there}\""])
    };
    let url = format!("etcds://me@{address}?ttl=60&ca={ca}");
    let right = lock(&url, Some("mine"));
    assert_eq!(code(&right), 0, "{right:?}");
    std::fs::write(folder.join("password"), "mine\n").expect("is written");
    let by_file = lock(&format!("{url}&password-file={}", path("password")), None);
    assert_eq!(code(&by_file), 0, "{by_file:?}");
    let wrong = lock(&url, Some("yours"));
    assert_eq!(code(&wrong), 125);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("denies"), "{wrong:?}");
    let nobody = lock(&format!("etcds://{address}?ttl=60&ca={ca}"), None);
    assert_eq!(code(&nobody), 125, "{nobody:?}");
    // Not one of the certificates that the world trusts.
    assert_eq!(code(&lock(&format!("etcds://me@{address}?ttl=60"), Some("mine"))), 125);
}
