//! The names of values, by the graphs that they are seen in.

use std::collections::BTreeMap;

use super::error::ParseError;
use crate::graph::ValueId;

/// A branch sees the names of the graphs around it, a function only its own.
pub(super) struct Names {
    /// The name of each value.
    pub list: Vec<String>,
    /// From the outermost graph to the innermost. An operand that a function's call leaves out has a name and no value.
    scopes: Vec<BTreeMap<String, Option<ValueId>>>,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            scopes: vec![BTreeMap::new()],
        }
    }
}

impl Names {
    pub fn define(&mut self, name: &str) -> Result<ValueId, ParseError> {
        let id = ValueId(self.list.len());
        self.bind(name, Some(id))?;
        self.list.push(name.to_owned());
        Ok(id)
    }

    /// Gives a value one more name.
    pub fn bind(&mut self, name: &str, id: Option<ValueId>) -> Result<(), ParseError> {
        if self.find(name).is_some() {
            return Err(ParseError::DefinedTwice {
                name: name.to_owned(),
            });
        }
        let innermost = self.scopes.last_mut();
        innermost.and_then(|scope| scope.insert(name.to_owned(), id));
        Ok(())
    }

    pub fn find(&self, name: &str) -> Option<Option<ValueId>> {
        let mut scopes = self.scopes.iter().rev();
        scopes.find_map(|scope| scope.get(name)).copied()
    }

    /// A value that is there.
    pub fn value(&self, name: &str) -> Option<ValueId> {
        self.find(name).flatten()
    }

    /// Goes on with the names of a branch.
    pub fn enter_branch(&mut self) {
        self.scopes.push(BTreeMap::new());
    }

    pub fn leave_branch(&mut self) {
        self.scopes.pop();
    }

    /// Goes on with the names of a function. Returns what was seen before, for [`leave_function`](Self::leave_function).
    pub fn enter_function(&mut self) -> Outside {
        let own = vec![BTreeMap::new()];
        Outside(std::mem::replace(&mut self.scopes, own))
    }

    pub fn leave_function(&mut self, Outside(scopes): Outside) {
        self.scopes = scopes;
    }
}

/// The names around a function's call.
pub(super) struct Outside(Vec<BTreeMap<String, Option<ValueId>>>);
