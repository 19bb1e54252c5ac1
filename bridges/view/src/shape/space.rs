//! What lies in space: clouds of points, laser scans, transforms between frames of reference.

use foxglove::messages::packed_element_field::NumericType;
use foxglove::messages::{
    FrameTransform, FrameTransforms, LaserScan, PackedElementField, PointCloud, Pose, Quaternion,
    Timestamp, Vector3,
};
use outlive::describe::{Description, Field, Item, Number};

use super::fields::{Fields, Items, values};
use super::hints::{As, Hints};
use super::picture::frame_of;

/// The names of an array's numbers that is a point.
const AXES: [&str; 4] = ["x", "y", "z", "intensity"];

/// Reads a slice, array, list or tail of points: structs with `x`, `y` and `z`, or arrays of three or four
/// numbers (and more, which have no names) if the attribute says so.
pub fn points(
    description: &Description,
    bytes: &[u8],
    hints: &Hints,
    time: Timestamp,
) -> Option<PointCloud> {
    let cloud = |frame, stride: u64, fields: Vec<PackedElementField>, data: &[u8]| {
        Some(PointCloud {
            timestamp: Some(time),
            frame_id: hints.frame(frame),
            pose: Some(no_pose()),
            point_stride: u32::try_from(stride).ok()?,
            fields,
            data: data.to_vec().into(),
        })
    };
    if description.is_slice() && description.single().is_none() {
        let fields = packed(&description.shape().fields)?;
        return description
            .fits(bytes.len())
            .then(|| cloud(None, description.size(), fields, bytes))?;
    }
    let is_told = hints.says(As::Points);
    let of_items = |frame, items: &Items<'_>| {
        let fields = match (items.item, items.extents) {
            (Item::Struct(shape), []) => packed(&shape.fields)?,
            (Item::Number(number), [count]) if is_told && *count >= 3 => axes(*number, *count)?,
            _ => return None,
        };
        cloud(frame, items.each as u64, fields, items.bytes)
    };
    if let Some(items) = Items::of(description, bytes) {
        return of_items(None, &items);
    }
    let fields = Fields::of(description, bytes)?;
    let items = fields.items(&["points", "data", "items"])?;
    of_items(frame_of(&fields), &items)
}

/// Returns the fields of a point that Foxglove knows; `None` if it is none.
fn packed(fields: &[Field]) -> Option<Vec<PackedElementField>> {
    let has = |name: &str| {
        fields.iter().any(|field| {
            let is_number = matches!(field.item, Item::Number(number) if number != Number::Bool);
            field.name == name && field.extents.is_empty() && is_number
        })
    };
    if !["x", "y", "z"].into_iter().all(has) {
        return None;
    }
    let one = |field: &Field| {
        let Item::Number(number) = field.item else { return None };
        let kind = numeric(number).filter(|_| field.extents.is_empty())?;
        let (name, offset) = (field.name.clone(), field.offset);
        Some(PackedElementField { name, offset, r#type: kind as i32 })
    };
    Some(fields.iter().filter_map(one).collect())
}

fn axes(number: Number, count: u32) -> Option<Vec<PackedElementField>> {
    let kind = numeric(number)? as i32;
    let one = |(at, name): (usize, &&str)| PackedElementField {
        name: (*name).to_owned(),
        offset: at as u32 * number.bytes(),
        r#type: kind,
    };
    Some(AXES.iter().take(count as usize).enumerate().map(one).collect())
}

/// 64-bit whole numbers have no name there.
fn numeric(number: Number) -> Option<NumericType> {
    Some(match number {
        Number::Bool | Number::U8 => NumericType::Uint8,
        Number::I8 => NumericType::Int8,
        Number::U16 => NumericType::Uint16,
        Number::I16 => NumericType::Int16,
        Number::U32 => NumericType::Uint32,
        Number::I32 => NumericType::Int32,
        Number::F32 => NumericType::Float32,
        Number::F64 => NumericType::Float64,
        _ => return None,
    })
}

/// Reads a struct with the angles and ranges of ROS's `sensor_msgs/LaserScan`.
pub fn scan(
    description: &Description,
    bytes: &[u8],
    hints: &Hints,
    time: Timestamp,
) -> Option<LaserScan> {
    let fields = Fields::of(description, bytes)?;
    let ranges = fields.items(&["ranges"])?.numbers()?;
    let start = fields.number(&["angle_min", "start_angle"])?;
    let end = fields.number(&["angle_max", "end_angle"])?;
    let intensities = fields.items(&["intensities"]).and_then(|items| items.numbers());
    Some(LaserScan {
        timestamp: Some(time),
        frame_id: hints.frame(frame_of(&fields)),
        pose: Some(no_pose()),
        start_angle: start,
        end_angle: end,
        ranges,
        intensities: intensities.unwrap_or_default(),
    })
}

/// Reads one transform, or a slice, list or tail of them: as ROS's `geometry_msgs/TransformStamped`, or
/// with `parent_frame_id`.
pub fn transforms(
    description: &Description,
    bytes: &[u8],
    time: Timestamp,
) -> Option<FrameTransforms> {
    let all = match values(description, bytes) {
        Some(all) => all,
        None => {
            let fields = Fields::of(description, bytes)?;
            match fields.items(&["transforms"]) {
                Some(items) => items.structs()?,
                None => vec![fields],
            }
        }
    };
    let transforms = all.iter().map(|one| transform(one, time)).collect::<Option<_>>()?;
    Some(FrameTransforms { transforms })
}

/// Whether a message that is no slice is a transform, or a struct with a list of them.
pub fn transforms_of_one(description: &Description, empty: &[u8], time: Timestamp) -> bool {
    let Some(fields) = Fields::of(description, empty) else { return false };
    match fields.items(&["transforms"]) {
        Some(items) => items.is_each(|fields| transform(fields, time).is_some()),
        None => transform(&fields, time).is_some(),
    }
}

fn transform(fields: &Fields<'_>, time: Timestamp) -> Option<FrameTransform> {
    let child = fields.text(&["child_frame_id", "child"])?;
    let parent = fields.text(&["parent_frame_id", "parent"]).or_else(|| frame_of(fields))?;
    let inner = fields.nested(&["transform"]).unwrap_or(*fields);
    let [x, y, z] = inner.vector(&["translation", "position"], ["x", "y", "z"])?;
    let translation = Vector3 { x, y, z };
    let [x, y, z, w] = inner.vector(&["rotation", "orientation"], ["x", "y", "z", "w"])?;
    Some(FrameTransform {
        timestamp: Some(time),
        parent_frame_id: parent,
        child_frame_id: child,
        translation: Some(translation),
        rotation: Some(Quaternion { x, y, z, w }),
    })
}

fn no_pose() -> Pose {
    Pose {
        position: Some(Vector3 { x: 0.0, y: 0.0, z: 0.0 }),
        orientation: Some(Quaternion { x: 0.0, y: 0.0, z: 0.0, w: 1.0 }),
    }
}
