//! Descriptions of payloads from bytes that a hostile program may have written: each is refused, or
//! is one that can be written, compared and shown.

use std::hint::black_box;

use outlive::describe::{Description, Field, Item, Number, Struct};

use crate::random::Random;
use crate::world::World;

fn number(name: &str, offset: u32, number: Number) -> Field {
    Field { name: name.to_owned(), offset, extents: Vec::new(), item: Item::Number(number) }
}

/// A type with nested arrays and a text.
fn some() -> Description {
    let fields = vec![number("x", 0, Number::F64), number("y", 8, Number::F64)];
    let point = Item::Struct(Struct { size: 16, align: 8, fields });
    let fields = vec![
        Field { name: "corners".to_owned(), offset: 0, extents: vec![2, 3], item: point },
        Field {
            name: "label".to_owned(),
            offset: 96,
            extents: Vec::new(),
            item: Item::Struct(Struct::text(20)),
        },
        number("kind", 120, Number::U32),
    ];
    let shape = Struct { size: 128, align: 8, fields };
    Description::raw("Track", shape).expect("possible")
}

/// Reads bytes that have been changed here and there, or that are any.
pub fn read(_: &World, random: &mut Random) {
    let ours = some();
    let whole = ours.to_bytes();
    for _ in 0..200 {
        let mut bytes = whole.clone();
        match random.below(4) {
            0 => bytes.truncate(random.below(whole.len() as u64) as usize),
            1 => bytes.iter_mut().skip(4).for_each(|byte| *byte = random.next() as u8),
            _ => {
                for _ in 0..1 + random.below(6) {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] =
                        *random.pick(&[0, 1, 4, 64, 127, 128, 255, random.clone().next() as u8]);
                }
            }
        }
        if let Some(read) = Description::from_bytes(&bytes) {
            assert!(read.to_bytes() == bytes, "it is written as it was read");
            let len = random.below(1 << 20) as usize;
            black_box((read.difference(&ours), ours.difference(&read), read.fits(len)));
            drop(black_box((read.to_string(), read.clone().slice().is_ok())));
        }
    }
}
