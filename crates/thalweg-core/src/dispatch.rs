//! Static dispatch: an enum implements a trait by forwarding each call to its variant.

/// Evaluates one expression with the content of an enum, whatever its variant is.
macro_rules! each {
    ($any:ident [$($variant:ident)*], $value:expr, $one:ident => $what:expr) => {
        match $value {
            $($any::$variant($one) => $what,)*
        }
    };
}

/// Defines methods that forward to the variant. One invocation defines either `&self` or `&mut self` methods.
macro_rules! delegate {
    ($any:ident $variants:tt:
     $(fn $name:ident(&$this:ident $(, $argument:ident: $type:ty)*) $(-> $out:ty)?;)*) => {$(
        #[inline]
        fn $name(&$this $(, $argument: $type)*) $(-> $out)? {
            each!($any $variants, $this, one => one.$name($($argument),*))
        }
    )*};
    ($any:ident $variants:tt:
     $(fn $name:ident(&mut $this:ident $(, $argument:ident: $type:ty)*) $(-> $out:ty)?;)*) => {$(
        #[inline]
        fn $name(&mut $this $(, $argument: $type)*) $(-> $out)? {
            each!($any $variants, $this, one => one.$name($($argument),*))
        }
    )*};
}
