//! Static dispatch: an enum implements a trait by its variants' implementations.

/// Runs the same expression with each variant of an enum.
macro_rules! each {
    ($any:ident [$($variant:ident)*], $value:expr, $one:ident => $what:expr) => {
        match $value {
            $($any::$variant($one) => $what,)*
        }
    };
}

/// Methods that all variants have. A call has either `&self` or `&mut self` methods.
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
