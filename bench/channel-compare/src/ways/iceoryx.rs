//! iceoryx2: publish and subscribe each way, and where sides sleep, its events.

use std::time::Duration;

use iceoryx2::port::listener::{Listener, ListenerWaitError};
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use punctual_platform::clock::now_ns;

use super::{Client, HEADER_BYTES};
use crate::Result;
use crate::child::{Orders, Wait};

/// A sleeper looks after its messages this often, as ours looks after its daemon.
const LOOK: Duration = Duration::from_millis(20);

type Service = ipc::Service;
type Sender = Publisher<Service, [u8], ()>;
type Receiver = Subscriber<Service, [u8], ()>;

/// A name of this run's own.
fn name(orders: &Orders, what: &str) -> Result<ServiceName> {
    let run = orders.folder.file_name().ok_or("a folder without a name")?;
    Ok(ServiceName::new(&format!(
        "{}/{what}",
        run.to_string_lossy()
    ))?)
}

struct Ports {
    node: Node<Service>,
}

impl Ports {
    fn new() -> Result<Self> {
        set_log_level(LogLevel::Error);
        let node = NodeBuilder::new().create::<Service>()?;
        Ok(Self { node })
    }

    fn messages(
        &self,
        orders: &Orders,
        what: &str,
    ) -> Result<iceoryx2::service::port_factory::publish_subscribe::PortFactory<Service, [u8], ()>>
    {
        let builder = self.node.service_builder(&name(orders, what)?);
        let builder = builder.publish_subscribe::<[u8]>();
        Ok(builder
            .max_publishers(orders.clients)
            .max_subscribers(1)
            .max_nodes(orders.clients + 1)
            .subscriber_max_buffer_size(4 * orders.clients)
            .open_or_create()?)
    }

    fn sender(&self, orders: &Orders, what: &str, bytes: usize) -> Result<Sender> {
        let service = self.messages(orders, what)?;
        Ok(service
            .publisher_builder()
            .initial_max_slice_len(bytes)
            .create()?)
    }

    fn receiver(&self, orders: &Orders, what: &str) -> Result<Receiver> {
        Ok(self.messages(orders, what)?.subscriber_builder().create()?)
    }

    fn events(
        &self,
        orders: &Orders,
        what: &str,
    ) -> Result<iceoryx2::service::port_factory::event::PortFactory<Service>> {
        let builder = self.node.service_builder(&name(orders, what)?).event();
        let builder = builder.max_nodes(orders.clients + 1);
        let builder = builder.max_notifiers(orders.clients).max_listeners(1);
        Ok(builder.open_or_create()?)
    }

    fn notifier(&self, orders: &Orders, what: &str) -> Result<Notifier<Service>> {
        Ok(self.events(orders, what)?.notifier_builder().create()?)
    }

    fn listener(&self, orders: &Orders, what: &str) -> Result<Listener<Service>> {
        Ok(self.events(orders, what)?.listener_builder().create()?)
    }
}

fn back(index: usize) -> String {
    format!("back/{index}")
}

/// Until woken; being stopped and continued by the parent looks like a signal, and wake-ups were
/// seen to get lost by it.
fn sleep(listener: &Listener<Service>) -> Result<()> {
    match listener.timed_wait(|_| {}, LOOK) {
        Ok(_) | Err(ListenerWaitError::InterruptSignal) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn send(sender: &Sender, bytes: &[u8]) -> Result<()> {
    let sample = sender.loan_slice_uninit(bytes.len())?;
    sample.write_from_slice(bytes).send()?;
    Ok(())
}

pub fn serve(orders: &Orders) -> Result<()> {
    let ports = Ports::new()?;
    let forth = ports.receiver(orders, "forth")?;
    let wake = ports.listener(orders, "forth")?;
    let mut clients = Vec::new();
    for index in 0..orders.clients {
        let sender = ports.sender(orders, &back(index), HEADER_BYTES)?;
        clients.push((sender, ports.notifier(orders, &back(index))?));
    }
    loop {
        if orders.wait == Wait::Sleep {
            sleep(&wake)?;
        }
        while let Some(sample) = forth.receive()? {
            let message = sample.payload();
            let (head, tail) = message.split_at(message.len() - HEADER_BYTES.min(message.len()));
            std::hint::black_box((head.first_chunk::<HEADER_BYTES>(), tail.iter().max()));
            let index = usize::from(message[8]);
            let (sender, notifier) = clients.get(index).ok_or("no such client")?;
            let mut answer = [0; HEADER_BYTES];
            answer[..8].copy_from_slice(&now_ns().to_le_bytes());
            drop(sample);
            send(sender, &answer)?;
            if orders.wait == Wait::Sleep {
                notifier.notify()?;
            }
        }
    }
}

pub struct Iceoryx {
    _ports: Ports,
    forth: Sender,
    back: Receiver,
    wake: Notifier<Service>,
    woken: Listener<Service>,
    frame: Vec<u8>,
    wait: Wait,
}

pub fn connect(orders: &Orders) -> Result<Iceoryx> {
    let ports = Ports::new()?;
    let mut frame = vec![7; orders.bytes];
    frame[8] = orders.index as u8;
    Ok(Iceoryx {
        forth: ports.sender(orders, "forth", orders.bytes)?,
        back: ports.receiver(orders, &back(orders.index))?,
        wake: ports.notifier(orders, "forth")?,
        woken: ports.listener(orders, &back(orders.index))?,
        frame,
        wait: orders.wait,
        _ports: ports,
    })
}

impl Client for Iceoryx {
    fn exchange(&mut self, due_ns: u64) -> Result<u64> {
        self.frame[..8].copy_from_slice(&due_ns.to_le_bytes());
        send(&self.forth, &self.frame)?;
        if self.wait == Wait::Sleep {
            self.wake.notify()?;
        }
        loop {
            if let Some(sample) = self.back.receive()? {
                let there = sample.payload().first_chunk().ok_or("a short answer")?;
                return Ok(u64::from_le_bytes(*there));
            }
            if self.wait == Wait::Sleep {
                sleep(&self.woken)?;
            }
        }
    }
}
