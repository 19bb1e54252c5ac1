//! Where two descriptions differ first.

use super::{Description, Encoding, Field, Item, Struct};

pub(super) fn difference(one: &Description, other: &Description) -> Option<(String, String)> {
    let of = |what: &str, (one, other): (String, String)| {
        (format!("{what} of {one}"), format!("{what} of {other}"))
    };
    match (one.reply(), other.reply()) {
        (None, None) => of_ones(one, other),
        (Some(reply), Some(its)) => of_ones(one, other)
            .map(|both| of("requests", both))
            .or_else(|| of_ones(reply, its).map(|both| of("replies", both))),
        (reply, _) => {
            let said = |is_service| if is_service { "requests and replies" } else { "messages" };
            Some((said(reply.is_some()).to_owned(), said(reply.is_none()).to_owned()))
        }
    }
}

/// Compares them without their replies.
fn of_ones(one: &Description, other: &Description) -> Option<(String, String)> {
    let both = |said: &dyn Fn(&Description) -> String| Some((said(one), said(other)));
    if one.encoding != other.encoding {
        return both(&|which| format!("{} messages", which.encoding.name()));
    }
    if !one.name.is_empty() && !other.name.is_empty() && one.name != other.name {
        return both(&|which| format!("'{}'", which.name));
    }
    if one.encoding != Encoding::Raw {
        return None;
    }
    let name = if one.name.is_empty() { &other.name } else { &one.name };
    let of = if name.is_empty() { String::from("a type") } else { format!("'{name}'") };
    if one.is_slice != other.is_slice {
        let said = |is_slice| if is_slice { "slices of " } else { "values of " };
        return both(&|which| format!("{}{of}", said(which.is_slice)));
    }
    of_structs(&of, "", &one.shape, &other.shape).or_else(|| of_tails(&of, one, other))
}

fn of_tails(of: &str, one: &Description, other: &Description) -> Option<(String, String)> {
    let said = |which: &Description| match &which.tail {
        Some(tail) => format!("{of} with a tail '{}: {tail}[]'", tail.name),
        None => format!("{of} without a tail"),
    };
    let both = || Some((said(one), said(other)));
    let (Some(mine), Some(theirs)) = (&one.tail, &other.tail) else {
        return if one.tail == other.tail { None } else { both() };
    };
    if (&mine.name, mine.offset, &mine.extents) != (&theirs.name, theirs.offset, &theirs.extents) {
        return both();
    }
    match (&mine.item, &theirs.item) {
        (Item::Struct(nested), Item::Struct(theirs)) => {
            of_structs(of, &format!("{}.", mine.name), nested, theirs)
        }
        (item, theirs) if item != theirs => both(),
        _ => None,
    }
}

fn of_structs(of: &str, path: &str, one: &Struct, other: &Struct) -> Option<(String, String)> {
    for at in 0..one.fields.len().max(other.fields.len()) {
        let (field, its) = (one.fields.get(at), other.fields.get(at));
        let said = |field: Option<&Field>| match field {
            Some(field) if field.name.is_empty() => format!("{of}, {field}"),
            Some(field) => {
                format!("{of} with field '{path}{}: {field}' at byte {}", field.name, field.offset)
            }
            None if path.is_empty() => format!("{of} with {at} fields"),
            None => format!("{of} with {at} fields in '{}'", path.trim_end_matches('.')),
        };
        let (Some(mine), Some(theirs)) = (field, its) else {
            return Some((said(field), said(its)));
        };
        let place = |field: &Field| (field.name.clone(), field.offset, field.extents.clone());
        match (&mine.item, &theirs.item) {
            _ if place(mine) != place(theirs) => return Some((said(field), said(its))),
            (Item::Struct(nested), Item::Struct(theirs)) => {
                let inner = of_structs(of, &format!("{path}{}.", mine.name), nested, theirs);
                if inner.is_some() {
                    return inner;
                }
            }
            (nested, theirs) if nested != theirs => return Some((said(field), said(its))),
            _ => {}
        }
    }
    let whole = |shape: &Struct| {
        let part = if path.is_empty() {
            String::new()
        } else {
            format!(" with field '{}'", path.trim_end_matches('.'))
        };
        format!("{of}{part} of {} bytes, alignment {}", shape.size, shape.align)
    };
    // Where fields lie decides; an alignment of up to 8 every message has.
    let place = |shape: &Struct| (shape.size, if path.is_empty() { shape.align.max(8) } else { 0 });
    (place(one) != place(other)).then(|| (whole(one), whole(other)))
}
