//! Annotations in COCO's JSON: which objects each picture shows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use punctual_decode::Rect;
use punctual_platform::read;
use punctual_quality::Object;
use punctual_types::Size;
use serde::Deserialize;

use super::kind::TruthError;

const BYTES_MAX: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub struct Annotations {
    pub pictures: Vec<Annotated>,
    /// Names of the classes: the network's, or those of the categories.
    pub classes: Vec<String>,
}

/// A picture with its objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotated {
    pub path: PathBuf,
    /// What the file gives as its size; boxes are in these pixels.
    pub size: Option<Size>,
    pub objects: Vec<Object>,
    /// The file and the picture, for messages.
    pub place: String,
}

#[derive(Deserialize)]
struct File {
    images: Vec<Image>,
    annotations: Vec<Annotation>,
    categories: Vec<Category>,
}

#[derive(Deserialize)]
struct Image {
    id: u64,
    file_name: PathBuf,
    width: Option<u32>,
    height: Option<u32>,
}

#[derive(Deserialize)]
struct Annotation {
    image_id: u64,
    category_id: u64,
    /// Left, top, width, height; labels have none.
    bbox: Option<[f32; 4]>,
    #[serde(default)]
    iscrowd: u8,
}

#[derive(Deserialize)]
struct Category {
    id: u64,
    name: String,
}

/// The pictures of an annotations file, in its order; files are relative to `folder`. Categories are classes by their names;
/// of a network whose classes have no names by the order of their numbers. `boxes`: every annotation needs one.
pub fn read(
    path: &Path,
    folder: &Path,
    classes: &[String],
    boxes: bool,
) -> Result<Annotations, TruthError> {
    let text = read::text(path, BYTES_MAX).map_err(|source| TruthError::Read {
        path: path.to_owned(),
        source,
    })?;
    parsed(path, &text, folder, classes, boxes)
}

fn parsed(
    path: &Path,
    text: &str,
    folder: &Path,
    classes: &[String],
    boxes: bool,
) -> Result<Annotations, TruthError> {
    let file: File = serde_json::from_str(text).map_err(|source| TruthError::Json {
        path: path.to_owned(),
        source,
    })?;
    let (classes, names) = classes_of(path, &file.categories, classes)?;
    let mut positions = BTreeMap::new();
    let mut pictures = Vec::with_capacity(file.images.len());
    for image in file.images {
        let place = format!("{}: image {}", path.display(), image.id);
        if positions.insert(image.id, pictures.len()).is_some() {
            return Err(TruthError::invalid(place, "its `id` is there twice"));
        }
        let size = image.width.zip(image.height);
        pictures.push(Annotated {
            path: folder.join(image.file_name),
            size: size.map(|(width, height)| Size { width, height }),
            objects: Vec::new(),
            place,
        });
    }
    for (at, annotation) in file.annotations.iter().enumerate() {
        let invalid = |problem: String| {
            let place = format!("{}: annotations[{at}]", path.display());
            TruthError::invalid(place, problem)
        };
        let picture = positions.get(&annotation.image_id);
        let picture = picture.ok_or_else(|| {
            let id = annotation.image_id;
            invalid(format!("no image has the id {id} that `image_id` names"))
        })?;
        let class = classes.get(&annotation.category_id).copied();
        let class = class.ok_or_else(|| {
            let id = annotation.category_id;
            invalid(format!(
                "no category has the id {id} that `category_id` names"
            ))
        })?;
        let rect = match annotation.bbox {
            Some(bbox) => rect(bbox).ok_or_else(|| {
                invalid(format!(
                    "`bbox` is {bbox:?}; give left, top, width and height in pixels, both not negative"
                ))
            })?,
            None if boxes => {
                return Err(invalid("it has no `bbox`: [left, top, width, height]".into()));
            }
            None => Rect::default(),
        };
        pictures[*picture].objects.push(Object {
            rect,
            class,
            crowd: annotation.iscrowd != 0,
        });
    }
    if pictures.is_empty() {
        Err(TruthError::invalid(path.display(), "it has no images"))
    } else {
        Ok(Annotations {
            pictures,
            classes: names,
        })
    }
}

/// Does with some text what is done with an annotations file, for networks with and without names of classes. Whether it is
/// one for the latter.
///
/// # Panics
/// On an error in this file.
pub fn exercise(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let (path, folder) = (Path::new("fuzzed.json"), Path::new("pictures"));
    let named = ["cat", "dog"].map(str::to_owned);
    let read = |classes: &[String], boxes| match parsed(path, &text, folder, classes, boxes) {
        Ok(annotations) => Some(annotations),
        Err(error) => {
            assert!(!error.to_string().is_empty(), "refused without a reason");
            None
        }
    };
    let all = [
        read(&named, true),
        read(&named, false),
        read(&[], true),
        read(&[], false),
    ];
    for annotations in all.iter().flatten() {
        assert!(!annotations.pictures.is_empty());
        for object in annotations.pictures.iter().flat_map(|p| &p.objects) {
            assert!(usize::from(object.class) < annotations.classes.len());
            let Rect {
                left,
                top,
                right,
                bottom,
            } = object.rect;
            assert!(left <= right && top <= bottom, "no NaN, and not inside out");
        }
    }
    all[3].is_some()
}

fn rect([left, top, width, height]: [f32; 4]) -> Option<Rect> {
    let rect = Rect {
        left,
        top,
        right: left + width,
        bottom: top + height,
    };
    let sides = [left, top, rect.right, rect.bottom];
    let is_one = width >= 0.0 && height >= 0.0 && sides.iter().all(|side| side.is_finite());
    is_one.then_some(rect)
}

/// The class of each category, and the names of the classes.
fn classes_of(
    path: &Path,
    categories: &[Category],
    classes: &[String],
) -> Result<(BTreeMap<u64, u16>, Vec<String>), TruthError> {
    if classes.is_empty() {
        let by_id = categories.iter();
        let by_id: BTreeMap<u64, &String> = by_id.map(|c| (c.id, &c.name)).collect();
        let names = by_id.values().map(|&name| name.clone()).collect();
        return Ok((by_id.into_keys().zip(0..=u16::MAX).collect(), names));
    }
    let class = |category: &Category| {
        let class = classes.iter().position(|class| *class == category.name);
        let class = class.ok_or_else(|| {
            let place = format!("{}: category {}", path.display(), category.id);
            let (name, listed) = (&category.name, super::samples::listed(classes));
            let problem = format!(
                "the network has no class `{name}`; its {} classes are {listed}: rename the category, or remove it with its \
                 annotations",
                classes.len()
            );
            TruthError::invalid(place, problem)
        })?;
        Ok((category.id, class as u16))
    };
    let found = categories.iter().map(class).collect::<Result<_, _>>()?;
    Ok((found, classes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, classes: &[&str]) -> Result<Annotations, TruthError> {
        let classes: Vec<String> = classes.iter().map(|&class| class.to_owned()).collect();
        let (path, folder) = (Path::new("a.json"), Path::new("pictures"));
        parsed(path, text, folder, &classes, true)
    }

    const FILE: &str = r#"{"info": {}, "images": [{"id": 7, "file_name": "a.png", "width": 40, "height": 30},
        {"id": 9, "file_name": "b.png"}],
        "annotations": [{"id": 1, "image_id": 9, "category_id": 5, "bbox": [1, 2, 3.5, 4], "area": 14, "iscrowd": 1}],
        "categories": [{"id": 5, "name": "cat"}, {"id": 2, "name": "dog"}]}"#;

    #[test]
    fn pictures_come_in_order_with_the_objects_that_they_show() {
        let pictures = read_text(FILE, &["dog", "cat"]).unwrap().pictures;
        assert_eq!(pictures.len(), 2);
        assert_eq!(pictures[0].path, Path::new("pictures/a.png"));
        let size = Size {
            width: 40,
            height: 30,
        };
        assert_eq!(pictures[0].size, Some(size));
        assert!(pictures[0].objects.is_empty() && pictures[1].size.is_none());
        let rect = Rect {
            left: 1.0,
            top: 2.0,
            right: 4.5,
            bottom: 6.0,
        };
        let cat = Object {
            rect,
            class: 1,
            crowd: true,
        };
        assert_eq!(pictures[1].objects, [cat]);
    }

    #[test]
    fn categories_of_a_network_without_names_count_by_their_ids() {
        let annotations = read_text(FILE, &[]).unwrap();
        assert_eq!(annotations.pictures[1].objects[0].class, 1);
        assert_eq!(annotations.classes, ["dog", "cat"]);
    }

    #[test]
    fn thousands_of_damaged_files_are_refused_or_make_sense() {
        let mut random = punctual_types::Random::new(0x5EED).stream("damage", 0);
        let taken = (0..4_000).filter(|_| {
            let mut bytes = FILE.as_bytes().to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = match random.below(3) {
                    0 => b'0' + random.below(10) as u8,
                    1 => bytes[at] ^ 1 << random.below(8),
                    _ => b"-,]}e."[random.below(6) as usize],
                };
            }
            exercise(&bytes)
        });
        assert!(taken.count() > 100);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (from, to, expected) in [
            (
                r#""name": "cat""#,
                r#""name": "cow""#,
                "category 5: the network has no class `cow`",
            ),
            (
                r#""image_id": 9"#,
                r#""image_id": 8"#,
                "annotations[0]: no image has the id 8",
            ),
            (
                r#""category_id": 5"#,
                r#""category_id": 6"#,
                "no category has the id 6",
            ),
            ("3.5, 4]", "-3.5, 4]", "`bbox` is [1.0, 2.0, -3.5, 4.0]"),
            ("3.5, 4]", "3.5, 1e39]", "`bbox` is"),
            (r#""bbox": [1, 2, 3.5, 4],"#, "", "it has no `bbox`"),
            (
                r#""id": 9,"#,
                r#""id": 7,"#,
                "image 7: its `id` is there twice",
            ),
            (r#""images""#, r#""pictures""#, "missing field `images`"),
            ("3.5, 4]", "3.5]", "line 3 column"),
        ] {
            let error = read_text(&FILE.replace(from, to), &["dog", "cat"]).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        let empty = r#"{"images": [], "annotations": [], "categories": []}"#;
        let error = read_text(empty, &[]).unwrap_err();
        assert!(error.to_string().contains("it has no images"), "{error}");
    }

    #[test]
    fn a_damaged_file_is_read_or_refused() {
        let mut random = punctual_types::Random::new(19);
        let mut refused = 0;
        for _ in 0..5_000 {
            let mut bytes = FILE.as_bytes().to_vec();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = b"0123456789-+.e\"[]{},: \xff"[random.below(23) as usize];
            }
            bytes.truncate(bytes.len() - random.below(2) as usize);
            let text = String::from_utf8_lossy(&bytes);
            refused += usize::from(read_text(&text, &["dog", "cat"]).is_err());
        }
        assert!((1_000..5_000).contains(&refused), "{refused}");
    }
}
