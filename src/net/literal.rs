//! Whether an address argument is written out in numbers, so that it needs no lookup.
//!
//! std's trait does not tell a socket address from a host name, and asking the blocking pool costs tens of microseconds. The
//! types that std itself implements the trait for are recognised here; any other type goes to the pool.
//!
//! # Safety
//!
//! An argument is read as the type that its identity says it is. Identities do not see lifetimes, so a borrow inside is
//! read with the lifetime of the argument's own borrow, which every borrow inside it outlives.

#![allow(unsafe_code)]

use std::any::TypeId;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};

/// Whether `to_socket_addrs` on `argument` only computes. `false` if it might ask someone.
pub(super) fn is_literal<A>(argument: &A) -> bool {
    let id = identity::<A>();
    let is_address = [
        TypeId::of::<SocketAddr>(),
        TypeId::of::<SocketAddrV4>(),
        TypeId::of::<SocketAddrV6>(),
        TypeId::of::<(IpAddr, u16)>(),
        TypeId::of::<(Ipv4Addr, u16)>(),
        TypeId::of::<(Ipv6Addr, u16)>(),
        TypeId::of::<&'static SocketAddr>(),
        TypeId::of::<&'static [SocketAddr]>(),
    ]
    .contains(&id);
    is_address
        || read::<A, &str>(argument).is_some_and(|text| text.parse::<SocketAddr>().is_ok())
        || read::<A, String>(argument).is_some_and(|text| text.parse::<SocketAddr>().is_ok())
        || read::<A, (&str, u16)>(argument).is_some_and(|(host, _)| host.parse::<IpAddr>().is_ok())
        || read::<A, (String, u16)>(argument)
            .is_some_and(|(host, _)| host.parse::<IpAddr>().is_ok())
}

/// A name to look up, apart from whoever asked.
#[derive(Debug)]
pub(super) enum Name {
    HostAndPort(String),
    Host(String, u16),
}

impl Name {
    /// Of an argument that is one of std's types with a host name in it.
    pub(super) fn of<A>(argument: &A) -> Option<Name> {
        let whole = read::<A, &str>(argument)
            .copied()
            .or_else(|| read::<A, String>(argument).map(String::as_str));
        let parts = read::<A, (&str, u16)>(argument).copied().or_else(|| {
            read::<A, (String, u16)>(argument).map(|(host, port)| (host.as_str(), *port))
        });
        whole
            .map(|whole| Name::HostAndPort(whole.to_owned()))
            .or_else(|| parts.map(|(host, port)| Name::Host(host.to_owned(), port)))
    }

    /// Asks the C library. Blocks the thread.
    pub(super) fn look_up(self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Name::HostAndPort(whole) => whole.to_socket_addrs().map(Iterator::collect),
            Name::Host(host, port) => (host, port).to_socket_addrs().map(Iterator::collect),
        }
    }
}

/// `argument` as a `T`, if it is one but for lifetimes. `T` holds at most shared borrows.
fn read<'a, A, T: Erased<'a>>(argument: &'a A) -> Option<&'a T> {
    if identity::<A>() != identity::<T>() {
        return None;
    }
    // SAFETY: `A` is `T` but for lifetimes, because their identities are equal. Lifetimes inside `T` are `'a`, for which
    // `argument` is borrowed, so those inside `A` are no shorter; shared borrows may be read as shorter ones.
    Some(unsafe { &*std::ptr::from_ref(argument).cast::<T>() })
}

/// The types that [`read`] is for, with every borrow inside them of lifetime `'a`.
trait Erased<'a> {}

impl<'a> Erased<'a> for &'a str {}
impl Erased<'_> for String {}
impl<'a> Erased<'a> for (&'a str, u16) {}
impl Erased<'_> for (String, u16) {}

trait Identity {
    fn identity(&self) -> TypeId
    where
        Self: 'static;
}

impl<T: ?Sized> Identity for PhantomData<T> {
    fn identity(&self) -> TypeId
    where
        Self: 'static,
    {
        TypeId::of::<T>()
    }
}

/// The identity of `T` with its lifetimes erased.
fn identity<T: ?Sized>() -> TypeId {
    let of_type = PhantomData::<T>;
    let bounded: &dyn Identity = &of_type;
    // SAFETY: only the bound on lifetimes changes, which has no representation; the method behind it reads no data and
    // computes the same number for all lifetimes, because none exist when code is generated.
    let unbounded = unsafe { mem::transmute::<&dyn Identity, &(dyn Identity + 'static)>(bounded) };
    unbounded.identity()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_numbers_need_no_lookup() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let text = String::from("[::1]:80");
        assert!(is_literal(&address));
        assert!(is_literal(&&address));
        assert!(is_literal(&&[address][..]));
        assert!(is_literal(&(Ipv4Addr::LOCALHOST, 80_u16)));
        assert!(is_literal(&(IpAddr::V6(Ipv6Addr::LOCALHOST), 80_u16)));
        assert!(is_literal(&text.as_str()), "a borrow that is not static");
        assert!(is_literal(&("127.0.0.1", 80_u16)));
        assert!(is_literal(&(String::from("::1"), 80_u16)));
        assert!(is_literal(&text));
    }

    #[test]
    fn names_need_a_lookup() {
        assert!(!is_literal(&"localhost:80"));
        assert!(!is_literal(&String::from("127.0.0.1")));
        assert!(!is_literal(&("localhost", 80_u16)));
        assert!(!is_literal(&(String::from("127.0.0"), 80_u16)));
    }

    #[test]
    fn unknown_types_may_look_anything_up() {
        struct Service;
        assert!(!is_literal(&Service));
        assert!(!is_literal(&&"127.0.0.1:80"));
        assert!(!is_literal(&7_u32));
    }
}
