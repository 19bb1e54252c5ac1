//! `open.`: each kind by each of the three openings. What was opened is closed again at once.

use outlive::pool::Pool;
use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use std::cell::Cell;

use outlive::sync::{
    Barrier, CeilingMutex, Condvar, Event, Latch, Mutex, OnceLock, PiMutex, ReentrantMutex, Reset,
    RwLock, Semaphore, Untyped, ValueType,
};
use outlive::topic::Topic;
use outlive::{Domain, Opening};

use crate::answer::{Answer, done, number, refused, unknown};

/// Opens by the kind's short form, or by its options.
macro_rules! opened {
    ($how:expr, $domain:expr, $name:expr, $kind:ty, $options:expr) => {
        match $how {
            Opening::Open => <$kind>::open($domain, $name).map(drop),
            Opening::OpenOrCreate => $options.open_or_create($domain, $name).map(drop),
            Opening::CreateNew => $options.create_new($domain, $name).map(drop),
        }
    };
}

/// Sets an option if the command says one.
macro_rules! set {
    ($options:expr, $option:ident, $value:expr) => {
        match $value {
            Some(value) => $options.$option(value),
            None => $options,
        }
    };
}

pub(crate) fn act(domain: &Domain, kind: &str, args: &[&str]) -> Answer {
    let (how, name, given) = match args {
        [how, name] => (how, name, None),
        [how, name, given] => (how, name, Some(number::<u64>(given)?)),
        _ => return unknown("open", args),
    };
    let how = match *how {
        "open" => Opening::Open,
        "open_or_create" => Opening::OpenOrCreate,
        "create_new" => Opening::CreateNew,
        other => return refused("Usage", other),
    };
    let few = given.map(|number| number as u32);
    match kind {
        "mutex" => opened!(how, domain, name, Mutex<u64>, Mutex::options(0u64)),
        "rwlock" => opened!(how, domain, name, RwLock<u64>, RwLock::options(0u64)),
        "reentrant_mutex" => {
            let options = ReentrantMutex::options(Cell::new(0u64));
            opened!(how, domain, name, ReentrantMutex<Cell<u64>>, options)
        }
        "pi_mutex" => opened!(how, domain, name, PiMutex<u64>, PiMutex::options(0u64)),
        "ceiling_mutex" => {
            let options = CeilingMutex::options(few.unwrap_or(2), 0u64);
            opened!(how, domain, name, CeilingMutex<u64>, options)
        }
        "condvar" => opened!(how, domain, name, Condvar, Condvar::options()),
        "once" => opened!(how, domain, name, OnceLock<()>, OnceLock::<()>::options()),
        "event" => {
            let reset = few.map(|n| if n == 2 { Reset::Automatic } else { Reset::Manual });
            opened!(how, domain, name, Event, set!(Event::options(), reset, reset))
        }
        "latch" => opened!(how, domain, name, Latch, Latch::options(few.unwrap_or(1))),
        "semaphore" => {
            opened!(how, domain, name, Semaphore, Semaphore::options(few.unwrap_or(1)))
        }
        "barrier" => opened!(how, domain, name, Barrier, Barrier::options(few.unwrap_or(1))),
        "record" => {
            let value = ValueType { name: None, size: 8, align: 8 };
            Untyped::record(domain, name, how, value, &[], |_| ()).map(drop)
        }
        "queue" => {
            let options = set!(Queue::<[u8]>::options(), max_bytes, given);
            opened!(how, domain, name, Queue<[u8]>, options)
        }
        "topic" => {
            let options = set!(Topic::<[u8]>::options(), max_bytes, given);
            opened!(how, domain, name, Topic<[u8]>, options)
        }
        "state" => {
            let given = given.map(|bytes| bytes as usize);
            let options = set!(State::<[u8]>::options(), capacity, given);
            opened!(how, domain, name, State<[u8]>, options)
        }
        "service" => {
            opened!(
                how,
                domain,
                name,
                Service,
                set!(Service::<[u8], [u8]>::options(), max_bytes, given)
            )
        }
        "pool" => opened!(how, domain, name, Pool, set!(Pool::options(), max_bytes, given)),
        other => return refused("Usage", other),
    }?;
    done()
}
