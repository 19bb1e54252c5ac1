//! Machines with networks of their own.

use outlive_testnet::{Net, eventually, skip};

use crate::resource::Resource;
use crate::world::{Etcd, Machine, SHORT, SOON};

#[test]
fn a_machine_that_is_cut_off_ends_its_command_before_another_one_begins() {
    let test = "a_machine_that_is_cut_off_ends_its_command_before_another_one_begins";
    let net = match Net::new() {
        Ok(net) => net,
        Err(why) => return skip(test, &why),
    };
    let server = net.host("etcd");
    let Some(etcd) = Etcd::start_as(test, Some(&server), vec![]) else { return };
    let store = net.host("store");
    let resource = Resource::at(&store);
    let machines = [Machine::at(net.host("a")), Machine::at(net.host("b"))];
    let url = etcd.url(SHORT);
    let host = |which: usize| machines[which].host.as_ref().expect("it has one");
    let mut running =
        machines.each_ref().map(|machine| machine.start("lock", &url, &["x"], resource.address));
    let mut count = 1;
    // Cut from etcd, in both directions and in one: the store still hears it, so the command must end.
    for cut in 0..3 {
        resource.wait_for(count);
        let holder = usize::from(running[0].watchdog().is_none());
        match cut {
            0 => host(holder).part(&server),
            1 => host(holder).deafen(&server),
            _ => server.deafen(host(holder)),
        }
        count += 1;
        resource.wait_for(count);
        assert!(
            running[1 - holder].said().contains("lost its lease"),
            "{}",
            running[1 - holder].said()
        );
        assert!(running[holder].child.wait(SOON).is_some_and(|ended| !ended.success()));
        host(holder).heal();
        server.heal();
        running[holder] = machines[holder].start("lock", &url, &["x"], resource.address);
    }
    resource.assert_one_at_a_time();
}

#[test]
fn a_lossy_and_slow_network_costs_no_lock() {
    let test = "a_lossy_and_slow_network_costs_no_lock";
    let net = match Net::new() {
        Ok(net) => net,
        Err(why) => return skip(test, &why),
    };
    let server = net.host("etcd");
    let Some(etcd) = Etcd::start_as(test, Some(&server), vec![]) else { return };
    let resource = Resource::at(&net.host("store"));
    let machine = Machine::at(net.host("a"));
    server.lose(10);
    server.rate(1);
    let running = machine.start("lock", &etcd.url(20), &["x"], resource.address);
    let fence = resource.wait_for(1);
    // Renewed several times.
    let begun = std::time::Instant::now();
    assert!(eventually(SOON, || begun.elapsed().as_secs() >= 15));
    resource.wait_again(fence);
    assert_eq!(running.said(), "");
}
