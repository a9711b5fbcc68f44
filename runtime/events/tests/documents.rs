//! What people read about the events: `docs/events.md`, which is made from the list, and `systemd/catalog`. For a wanted
//! change of the page, run with `PUNCTUAL_REWRITE=1` and read the difference.

use std::collections::BTreeMap;
use std::path::Path;

use punctual_events::{Declaration, declarations, message_ids};

const INTRODUCTION: &str = "# Events

Made from `runtime/events/src/list.rs` by `cargo test -p punctual-events`, which compares it.

All that the daemon logs while it serves. The journal has the event's name in `PUNCTUAL_EVENT` and each field in upper case: `took_us` is
`PUNCTUAL_TOOK_US`. The end of a field's name is its unit. Names and ids never change.

```sh
journalctl PUNCTUAL_EVENT=demoted -o json
journalctl PUNCTUAL_MODEL=signs
```

A level of its own for the events of a thread: `--log info,punctual_daemon::scheduler=debug`.
*Report* is the figure of the [report](deploying.md#status-and-log) that counts the event.

| event | level | thread | line | fields | report |
|---|---|---|---|---|---|
";

const IDS: &str = "
## Explained in the journal

`journalctl -x` explains these ([systemd/catalog](../systemd/catalog/punctual.catalog)); `journalctl MESSAGE_ID=...` finds them.

| event | `MESSAGE_ID` |
|---|---|
";

/// In a cell of a table, as code.
fn code(text: &str) -> String {
    // A text with backticks is code between two.
    let fence = if text.contains('`') { "``" } else { "`" };
    format!("{fence}{}{fence}", text.replace('|', "\\|"))
}

fn fields(declaration: &Declaration) -> Vec<&'static str> {
    let fields = declaration.fields.iter();
    let fields = fields.flat_map(|field| field.kind.fields(field.name));
    fields.map(|(name, _)| name).collect()
}

fn row(declaration: &Declaration) -> String {
    let fields: Vec<String> = fields(declaration).into_iter().map(code).collect();
    format!(
        "| `{}` | {} | {} | {} | {} | {} |\n",
        declaration.name,
        declaration.level.as_str().to_ascii_lowercase(),
        declaration.writer.name(),
        // `{model:?}` is the name in quotes.
        code(&declaration.sentence.replace(":?}", "}")) + declaration.about.trim_end(),
        fields.join(", "),
        declaration.counted_in.map_or_else(String::new, code),
    )
}

fn page() -> String {
    let rows: String = declarations().map(row).collect();
    let id = |event: &punctual_platform::logging::Event| {
        format!("| `{}` | `{}` |\n", event.name, event.message_id)
    };
    let ids: String = message_ids().iter().map(id).collect();
    format!("{INTRODUCTION}{rows}{IDS}{ids}")
}

#[test]
fn the_page_is_made_from_the_list() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
    let page = page();
    if std::env::var_os("PUNCTUAL_REWRITE").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page,
        "docs/events.md differs; see PUNCTUAL_REWRITE"
    );
}

#[test]
fn the_catalog_explains_every_event_with_an_id_by_fields_that_it_has() {
    let catalog = include_str!("../../../systemd/catalog/punctual.catalog");
    let entries = catalog.split("\n-- ").skip(1);
    let entries = entries.map(|entry| entry.split_once('\n').expect("an id, and its text"));
    let entries: BTreeMap<&str, &str> = entries.collect();
    let with_id = declarations().filter(|declaration| declaration.message_id.is_some());
    for declaration in with_id {
        let id = declaration.message_id.unwrap_or_default();
        let text = entries
            .get(id)
            .unwrap_or_else(|| panic!("{id} is not explained"));
        let named = text
            .split('@')
            .filter_map(|part| part.strip_prefix("PUNCTUAL_"));
        for field in named {
            let has = |name: &&str| name.eq_ignore_ascii_case(field);
            assert!(
                fields(declaration).iter().any(has),
                "{}: {field}",
                declaration.name
            );
        }
    }
    assert_eq!(entries.len(), message_ids().len(), "one is of no event");
}
