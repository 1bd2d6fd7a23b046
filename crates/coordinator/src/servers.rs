//! The servers of the cluster and where each listener of them is.

use std::collections::BTreeMap;

use mainstem_types::ServerId;
use mainstem_types::listeners::Endpoint;
use parking_lot::RwLock;

use crate::plan::assignment::Candidate;

/// A live tablet server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerNode {
    /// Its id.
    pub id: ServerId,
    /// The rack it stands in.
    pub rack: Option<String>,
    /// Where clients find each of its listeners.
    pub endpoints: Vec<Endpoint>,
}

impl ServerNode {
    /// Its endpoint of a listener.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints
            .iter()
            .find(|endpoint| endpoint.name == listener)
    }
}

/// The live servers.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    tablets: RwLock<BTreeMap<ServerId, ServerNode>>,
    coordinator: RwLock<Vec<Endpoint>>,
}

impl Servers {
    pub(crate) fn register(&self, node: ServerNode) {
        self.tablets.write().insert(node.id, node);
    }

    pub(crate) fn remove(&self, id: ServerId) {
        self.tablets.write().remove(&id);
    }

    pub(crate) fn is_live(&self, id: ServerId) -> bool {
        self.tablets.read().contains_key(&id)
    }

    /// All of them, ascending by id.
    pub(crate) fn tablets(&self) -> Vec<ServerNode> {
        self.tablets.read().values().cloned().collect()
    }

    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let tablets = self.tablets.read();
        tablets
            .values()
            .map(|node| Candidate {
                id: node.id,
                rack: node.rack.clone(),
            })
            .collect()
    }

    pub(crate) fn set_coordinator(&self, endpoints: Vec<Endpoint>) {
        *self.coordinator.write() = endpoints;
    }

    pub(crate) fn coordinator_endpoint(&self, listener: &str) -> Option<Endpoint> {
        self.coordinator
            .read()
            .iter()
            .find(|endpoint| endpoint.name == listener)
            .cloned()
    }
}
