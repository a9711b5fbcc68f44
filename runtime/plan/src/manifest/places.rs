//! Where work may run in addition to its own partition: `places` and `cell` of `[daemon]`, and `[[place]]`.

use punctual_diagnostics::{Place, Problems, Section, Spanned};

use super::TPCS_MAX;

/// The words of `[daemon] places`.
const WORDS: [(&str, Word); 3] = [
    ("none", Word::None),
    ("homes", Word::Homes),
    ("cells", Word::Cells),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    None,
    Homes,
    Cells,
}

/// Which places the plan makes by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlaceChoice {
    #[default]
    None,
    /// The other partitions, whole.
    Homes,
    /// These, and ranges of this number of compute units; without a number, of one that fits.
    Cells(Option<u16>),
}

/// What `[daemon]` gives for places.
pub(crate) struct RawPlaces {
    pub(crate) choice: PlaceChoice,
    /// The key `places`.
    pub(crate) place: Place,
    /// The key `cell`.
    pub(crate) cell_place: Place,
    /// A size of cells without cells.
    pub(crate) cell_unused: bool,
}

impl RawPlaces {
    pub(super) fn read(section: &mut Section<'_, '_>, problems: &mut Problems<'_>) -> Self {
        let word = section.optional_word("places", &WORDS, problems);
        let cell = section.optional::<u64>("cell", problems);
        let cell = cell.map(|at| at.within(1..=TPCS_MAX, " compute units", problems).value);
        Self {
            choice: match (word.unwrap_or(Word::None), cell) {
                (Word::None, _) => PlaceChoice::None,
                (Word::Homes, _) => PlaceChoice::Homes,
                (Word::Cells, units) => PlaceChoice::Cells(units.map(|units| units as u16)),
            },
            place: section.place_of("places"),
            cell_place: section.place_of("cell"),
            cell_unused: section.has("cell") && word != Some(Word::Cells),
        }
    }
}

/// A place that is written out.
pub(crate) struct RawPlace {
    pub(crate) name: Spanned<String>,
    pub(crate) cores: Option<Spanned<Vec<u64>>>,
    /// The first TPC and their number.
    pub(crate) tpcs: Option<Spanned<Vec<u64>>>,
    pub(crate) place: Place,
}

impl RawPlace {
    pub(super) fn read(mut section: Section<'_, '_>, problems: &mut Problems<'_>) -> Option<Self> {
        let name = section.name(problems);
        let cores = section.optional("cores", problems);
        let tpcs = section.optional("tpcs", problems);
        let place = section.place().clone();
        section.finish(problems);
        Some(Self {
            name: name?,
            cores,
            tpcs,
            place,
        })
    }
}
