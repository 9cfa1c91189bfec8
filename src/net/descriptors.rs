//! Conversions from and to descriptors and std's types.
//!
//! # Safety
//!
//! `FromRawFd` passes its caller's promise on to `OwnedFd`.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use crate::net::{TcpListener, TcpStream};

macro_rules! descriptor_conversions {
    ($type:ident, $std:ty) => {
        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.descriptor().as_fd()
            }
        }

        impl AsRawFd for $type {
            fn as_raw_fd(&self) -> RawFd {
                self.descriptor().as_raw_fd()
            }
        }

        impl From<OwnedFd> for $type {
            fn from(fd: OwnedFd) -> $type {
                $type::adopt(fd)
            }
        }

        impl FromRawFd for $type {
            unsafe fn from_raw_fd(fd: RawFd) -> $type {
                // SAFETY: the caller owns `fd` and gives it up, which is what this function asks of them.
                $type::adopt(unsafe { OwnedFd::from_raw_fd(fd) })
            }
        }

        impl From<$std> for $type {
            fn from(socket: $std) -> $type {
                $type::adopt(OwnedFd::from(socket))
            }
        }

        impl From<$type> for OwnedFd {
            fn from(socket: $type) -> OwnedFd {
                socket.into_fd()
            }
        }

        impl IntoRawFd for $type {
            fn into_raw_fd(self) -> RawFd {
                self.into_fd().into_raw_fd()
            }
        }

        impl From<$type> for $std {
            fn from(socket: $type) -> $std {
                <$std>::from(socket.into_fd())
            }
        }
    };
}

descriptor_conversions!(TcpListener, std::net::TcpListener);
descriptor_conversions!(TcpStream, std::net::TcpStream);
