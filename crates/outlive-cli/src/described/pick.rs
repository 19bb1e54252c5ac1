//! One number of a message, by its path: `.position[2]`.
//!
//! A path is written as a field is named elsewhere: a dot and a name for a field of a struct, and an
//! index in brackets for an item of an array, a list, a tail or a slice.

use std::fmt;

use outlive::describe::{Description, Encoding, Item, Number, Struct};
use serde_json::Value;

use super::{has_fields, room_of};
use crate::msgpack;

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To a field of that name.
    Field(String),
    /// To the item with that index.
    Index(usize),
}

/// Reads a path; an empty one is of the whole message.
pub fn path(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let behind = &rest[first.len_utf8()..];
        rest = match first {
            '.' => {
                let end = behind.find(['.', '[']).unwrap_or(behind.len());
                if end == 0 {
                    return Err(format!("a field has a name, in '{text}'"));
                }
                steps.push(Step::Field(behind[..end].to_owned()));
                &behind[end..]
            }
            '[' => {
                let index = behind.split_once(']');
                let index = index.and_then(|(index, rest)| Some((index.parse().ok()?, rest)));
                let (index, rest) =
                    index.ok_or_else(|| format!("an index is a number, as in [3], in '{text}'"))?;
                steps.push(Step::Index(index));
                rest
            }
            _ => return Err(format!("a path begins with '.' or '[', not so '{text}'")),
        };
    }
    Ok(steps)
}

/// Where the numbers of a path are found in messages.
#[derive(Clone, Debug)]
pub enum Pick {
    /// In a message with fields.
    Place(Place),
    /// In a message that is msgpack.
    Msgpack(Vec<Step>),
    /// In one that is JSON, as a number by itself is, too; also where nothing is known of it.
    Json(Vec<Step>),
}

impl Pick {
    /// Returns where the path leads in messages of that description, or why to no number.
    pub fn new(description: Option<&Description>, path: &[Step]) -> Result<Pick, String> {
        match description {
            Some(one) if has_fields(one) => Place::find(one, path).map(Pick::Place),
            Some(one) => match one.encoding() {
                Encoding::Msgpack => Ok(Pick::Msgpack(path.to_vec())),
                Encoding::Json => Ok(Pick::Json(path.to_vec())),
                other => Err(format!("its messages are {}, which have no fields", other.name())),
            },
            None => Ok(Pick::Json(path.to_vec())),
        }
    }

    /// Returns which fields a message has that says so itself; `None`: it says nothing of fields.
    #[cfg(feature = "plot")]
    pub fn fields(&self, bytes: &[u8]) -> Option<String> {
        let value = match self {
            Pick::Place(_) => return None,
            Pick::Msgpack(_) => msgpack::to_json(bytes).ok()?,
            Pick::Json(_) => serde_json::from_slice(bytes.trim_ascii()).ok()?,
        };
        let all = value.as_object()?;
        Some(match all.len() {
            0 => "no fields".to_owned(),
            _ => format!("the fields {}", names(all.keys().map(String::as_str))),
        })
    }

    /// Returns the number of a message; `None`: this one has none there.
    pub fn number(&self, bytes: &[u8]) -> Option<f64> {
        match self {
            Pick::Place(place) => place.number(bytes),
            Pick::Msgpack(path) => number_of(&msgpack::to_json(bytes).ok()?, path),
            Pick::Json(path) => number_of(&serde_json::from_slice(bytes.trim_ascii()).ok()?, path),
        }
    }
}

fn number_of(value: &Value, path: &[Step]) -> Option<f64> {
    let found = path.iter().try_fold(value, |value, step| match step {
        Step::Field(name) => value.get(name),
        Step::Index(index) => value.get(index),
    })?;
    match found {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Null => Some(f64::NAN),
        other => other.as_f64(),
    }
}

/// The place of a number: the same in all messages, as long as the lists on the way are long enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    offset: usize,
    number: Number,
    /// Of each list that the path goes through, where its length is, and the index.
    lists: Vec<(usize, usize)>,
}

impl Place {
    fn find(description: &Description, path: &[Step]) -> Result<Place, String> {
        let mut way = Way { offset: 0, lists: Vec::new(), done: String::new() };
        let mut rest = path;
        if description.is_slice() {
            let [Step::Index(index), behind @ ..] = rest else {
                return Err("a message is any number of values: name one, as in [0]".to_owned());
            };
            way.item(*index, description.size())?;
            rest = behind;
        }
        let number = match (description.single(), description.tail(), rest) {
            (Some(field), ..) => way.items(&field.extents, &field.item, rest)?,
            (None, Some(tail), [Step::Field(name), behind @ ..]) if *name == tail.name => {
                way.offset += description.shape().size as usize;
                way.done.push_str(&format!(".{name}"));
                let [Step::Index(index), behind @ ..] = behind else {
                    return Err(format!("'{}' has any number of items: name one, as in [0]", way));
                };
                way.item(*index, tail.bytes())?;
                way.items(&tail.extents, &tail.item, behind)?
            }
            _ => way.structure(description.shape(), rest)?,
        };
        Ok(Place { offset: way.offset, number, lists: way.lists })
    }

    fn number(&self, bytes: &[u8]) -> Option<f64> {
        let reaches = |(at, index): &(usize, usize)| {
            let length = bytes.get(*at..)?.first_chunk().copied().map(u64::from_ne_bytes)?;
            (length > *index as u64).then_some(())
        };
        self.lists.iter().try_for_each(reaches)?;
        let end = self.offset.checked_add(self.number.bytes() as usize)?;
        let bytes = bytes.get(self.offset..end)?;
        macro_rules! of {
            ($type:ty) => {
                <$type>::from_ne_bytes(bytes.try_into().ok()?) as f64
            };
        }
        Some(match self.number {
            Number::Bool | Number::U8 => of!(u8),
            Number::I8 => of!(i8),
            Number::U16 => of!(u16),
            Number::I16 => of!(i16),
            Number::U32 => of!(u32),
            Number::I32 => of!(i32),
            Number::U64 => of!(u64),
            Number::I64 => of!(i64),
            Number::F32 => of!(f32),
            Number::F64 => of!(f64),
            _ => return None,
        })
    }
}

/// How far a path has been followed.
struct Way {
    offset: usize,
    lists: Vec<(usize, usize)>,
    /// In words.
    done: String,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = self.done.trim_start_matches('.');
        f.write_str(if done.is_empty() { "the message" } else { done })
    }
}

impl Way {
    /// Goes to an item, each of which has so many bytes.
    fn item(&mut self, index: usize, each: u64) -> Result<(), String> {
        let far = || format!("no message reaches to [{index}]");
        let each = usize::try_from(each).map_err(|_| far())?;
        let aside = index.checked_mul(each).and_then(|aside| self.offset.checked_add(aside));
        self.offset = aside.ok_or_else(far)?;
        self.done.push_str(&format!("[{index}]"));
        Ok(())
    }

    fn structure(&mut self, shape: &Struct, path: &[Step]) -> Result<Number, String> {
        match (path, &shape.fields[..]) {
            _ if shape.is_text() => Err(format!("'{self}' is a text")),
            ([Step::Index(index), rest @ ..], [_, items]) if shape.is_list() => {
                let (room, inner) = items.extents.split_first().ok_or("a list without room")?;
                if *index >= *room as usize {
                    return Err(format!("'{self}' has room for {} items", room_of(shape)));
                }
                self.lists.push((self.offset, *index));
                self.offset += 8;
                self.item(*index, items.bytes().checked_div((*room).into()).unwrap_or(0))?;
                self.items(inner, &items.item, rest)
            }
            (_, [_, items]) if shape.is_list() && path.is_empty() => {
                Err(format!("'{self}' is a list of {}: name an item, as in [0]", items.name))
            }
            ([Step::Field(name), rest @ ..], fields) => {
                let found = fields.iter().find(|field| field.name == *name);
                let Some(field) = found else {
                    let all = names(fields.iter().map(|field| field.name.as_str()));
                    return Err(format!("'{self}' has no field '{name}': it has {all}"));
                };
                self.offset += field.offset as usize;
                self.done.push_str(&format!(".{name}"));
                self.items(&field.extents, &field.item, rest)
            }
            (_, fields) => {
                let all = names(fields.iter().map(|field| field.name.as_str()));
                Err(format!("'{self}' has fields: name one of {all}"))
            }
        }
    }

    fn items(&mut self, extents: &[u32], item: &Item, path: &[Step]) -> Result<Number, String> {
        match (extents, item, path) {
            ([count, inner @ ..], _, [Step::Index(index), rest @ ..]) => {
                if *index >= *count as usize {
                    return Err(format!(
                        "'{self}' has {count} items, the last of them [{}]",
                        count - 1
                    ));
                }
                let each = inner.iter().map(|extent| u64::from(*extent)).product::<u64>();
                self.item(*index, each * u64::from(item.bytes()))?;
                self.items(inner, item, rest)
            }
            ([count, ..], ..) => {
                Err(format!("'{self}' is an array of {count}: name an item, as in [0]"))
            }
            ([], Item::Struct(shape), path) => self.structure(shape, path),
            ([], Item::Number(number), []) => Ok(*number),
            ([], Item::Number(_), _) => Err(format!("'{self}' is a number, and has no parts")),
            _ => Err(format!("'{self}' is of a type that this program does not know")),
        }
    }
}

/// Returns names for a person, of many the first ones.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 12;
    let mut all: Vec<String> = all.map(|name| name.escape_debug().to_string()).collect();
    if all.len() > SHOWN {
        all.truncate(SHOWN);
        all.push("…".to_owned());
    }
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use outlive::describe::Field;

    use super::*;

    fn field(name: &str, offset: u32, extents: &[u32], item: Item) -> Field {
        Field { name: name.into(), offset, extents: extents.to_vec(), item }
    }

    fn scan() -> Description {
        let number = |name: &str, offset, extents: &[u32], number| {
            field(name, offset, extents, Item::Number(number))
        };
        let point = Struct {
            size: 8,
            align: 4,
            fields: vec![number("x", 0, &[], Number::F32), number("n", 4, &[2], Number::I16)],
        };
        let list = Struct {
            size: 24,
            align: 8,
            fields: vec![
                number("length", 0, &[], Number::U64),
                number("items", 8, &[4], Number::F32),
            ],
        };
        let fields = vec![
            number("ok", 0, &[], Number::Bool),
            field("points", 4, &[2], Item::Struct(point.clone())),
            field("ranges", 24, &[], Item::Struct(list)),
            field("name", 48, &[], Item::Struct(Struct::text(12))),
        ];
        let raw =
            Description::raw("Scan", Struct { size: 64, align: 8, fields }).expect("possible");
        raw.with_tail(field("dots", 64, &[], Item::Struct(point))).expect("possible")
    }

    fn picked(description: &Description, at: &str, bytes: &[u8]) -> Result<Option<f64>, String> {
        Ok(Pick::new(Some(description), &path(at)?)?.number(bytes))
    }

    #[test]
    fn a_path_leads_to_a_number_of_a_message() {
        let head =
            r#"{"ok":true,"points":[{"x":0.5,"n":[1,2]},{"x":1.5,"n":[3,-4]}],"ranges":[7,8]"#;
        let line = format!(r#"{head},"name":"a","dots":[{{"x":9,"n":[5,6]}}]}}"#);
        let bytes = super::super::parsed(&scan(), line.as_bytes()).expect("a message");
        for (at, number) in [
            (".ok", Some(1.0)),
            (".points[1].x", Some(1.5)),
            (".points[1].n[1]", Some(-4.0)),
            (".ranges[1]", Some(8.0)),
            // The list of this message is not that long.
            (".ranges[2]", None),
            (".ranges.length", Some(2.0)),
            (".dots[0].n[0]", Some(5.0)),
            (".dots[1].x", None),
        ] {
            assert_eq!(picked(&scan(), at, &bytes), Ok(number), "{at}");
            assert_eq!(picked(&scan(), at, &[]), Ok(None), "{at}");
        }
    }

    #[test]
    fn a_path_that_leads_nowhere_is_told_where_it_ends() {
        for (at, why) in [
            ("", "'the message' has fields: name one of ok, points, ranges, name"),
            (".z", "'the message' has no field 'z': it has ok, points, ranges, name"),
            (".points", "'points' is an array of 2: name an item, as in [0]"),
            (".points[2].x", "'points' has 2 items, the last of them [1]"),
            (".points[0]", "'points[0]' has fields: name one of x, n"),
            (".ok.x", "'ok' is a number, and has no parts"),
            (".name", "'name' is a text"),
            (".ranges", "'ranges' is a list of items: name an item, as in [0]"),
            (".ranges[4]", "'ranges' has room for 4 items"),
            (".dots", "'dots' has any number of items: name one, as in [0]"),
            (".dots[18446744073709551615].x", "no message reaches to [18446744073709551615]"),
            (".a..b", "a field has a name, in '.a..b'"),
            ("[x]", "an index is a number, as in [3], in '[x]'"),
            ("x", "a path begins with '.' or '[', not so 'x'"),
        ] {
            assert_eq!(picked(&scan(), at, &[0; 64]), Err(why.to_owned()), "{at}");
        }
    }

    #[test]
    fn numbers_by_themselves_slices_and_values_have_paths_too() {
        let three = Description::of::<[u16; 3]>();
        assert_eq!(picked(&three, "[2]", &[1, 0, 2, 0, 3, 0]), Ok(Some(3.0)));
        assert_eq!(picked(&Description::of::<f64>(), "", &2.5_f64.to_ne_bytes()), Ok(Some(2.5)));
        let many = Description::of::<u8>().slice().expect("possible");
        assert_eq!(picked(&many, "[1]", &[7, 8]), Ok(Some(8.0)));
        assert_eq!(picked(&many, "[2]", &[7, 8]), Ok(None));
        assert!(picked(&many, "", &[7]).is_err());
        let json = |at: &str, text: &str| {
            Pick::new(None, &path(at).expect("a path")).expect("JSON").number(text.as_bytes())
        };
        assert_eq!(json("", " 3.5\n"), Some(3.5));
        assert_eq!(json(".a[1]", r#"{"a":[1,true]}"#), Some(1.0));
        assert!(json(".a", r#"{"a":null}"#).expect("there").is_nan());
        assert_eq!((json(".b", r#"{"a":1}"#), json("", "text")), (None, None));
        let packed = Description::encoded("M", Encoding::Msgpack).expect("possible");
        let bytes = msgpack::of_json(br#"{"a":[1,2.5]}"#).expect("JSON");
        assert_eq!(picked(&packed, ".a[1]", &bytes), Ok(Some(2.5)));
        let cdr = Description::encoded("M", Encoding::Cdr).expect("possible");
        assert!(picked(&cdr, ".a", &[]).is_err_and(|why| why.contains("cdr")));
    }
}
