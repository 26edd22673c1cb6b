//! The errors of the HIP runtime by name, so that a caller can match on them and a message names them whatever the runtime's version.

macro_rules! errors {
    ($($name:ident = $code:literal,)*) => {
        /// hipError_t of HIP 7.2, but for hipSuccess.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum HipError {
            $(
                #[doc = concat!("hipError", stringify!($name), ", ", stringify!($code), ".")]
                $name,
            )*
            /// A number that HIP 7.2 does not have.
            Unlisted(i32),
        }

        impl HipError {
            /// All that have a name.
            pub const NAMED: &[Self] = &[$(Self::$name),*];

            /// The error of a number.
            pub fn from_code(code: i32) -> Self {
                match code {
                    $($code => Self::$name,)*
                    code => Self::Unlisted(code),
                }
            }

            /// Its number.
            pub fn code(self) -> i32 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Unlisted(code) => code,
                }
            }

            /// Its name in HIP's headers.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => concat!("hipError", stringify!($name)),)*
                    Self::Unlisted(_) => "an error that HIP 7.2 does not have",
                }
            }
        }
    };
}

errors! {
    InvalidValue = 1,
    OutOfMemory = 2,
    NotInitialized = 3,
    Deinitialized = 4,
    ProfilerDisabled = 5,
    ProfilerNotInitialized = 6,
    ProfilerAlreadyStarted = 7,
    ProfilerAlreadyStopped = 8,
    InvalidConfiguration = 9,
    InvalidPitchValue = 12,
    InvalidSymbol = 13,
    InvalidDevicePointer = 17,
    InvalidMemcpyDirection = 21,
    InsufficientDriver = 35,
    MissingConfiguration = 52,
    PriorLaunchFailure = 53,
    InvalidDeviceFunction = 98,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidImage = 200,
    InvalidContext = 201,
    ContextAlreadyCurrent = 202,
    MapFailed = 205,
    UnmapFailed = 206,
    ArrayIsMapped = 207,
    AlreadyMapped = 208,
    NoBinaryForGpu = 209,
    AlreadyAcquired = 210,
    NotMapped = 211,
    NotMappedAsArray = 212,
    NotMappedAsPointer = 213,
    ECCNotCorrectable = 214,
    UnsupportedLimit = 215,
    ContextAlreadyInUse = 216,
    PeerAccessUnsupported = 217,
    InvalidKernelFile = 218,
    InvalidGraphicsContext = 219,
    InvalidSource = 300,
    FileNotFound = 301,
    SharedObjectSymbolNotFound = 302,
    SharedObjectInitFailed = 303,
    OperatingSystem = 304,
    InvalidHandle = 400,
    IllegalState = 401,
    NotFound = 500,
    NotReady = 600,
    IllegalAddress = 700,
    LaunchOutOfResources = 701,
    LaunchTimeOut = 702,
    PeerAccessAlreadyEnabled = 704,
    PeerAccessNotEnabled = 705,
    SetOnActiveProcess = 708,
    ContextIsDestroyed = 709,
    Assert = 710,
    HostMemoryAlreadyRegistered = 712,
    HostMemoryNotRegistered = 713,
    LaunchFailure = 719,
    CooperativeLaunchTooLarge = 720,
    NotSupported = 801,
    StreamCaptureUnsupported = 900,
    StreamCaptureInvalidated = 901,
    StreamCaptureMerge = 902,
    StreamCaptureUnmatched = 903,
    StreamCaptureUnjoined = 904,
    StreamCaptureIsolation = 905,
    StreamCaptureImplicit = 906,
    CapturedEvent = 907,
    StreamCaptureWrongThread = 908,
    GraphExecUpdateFailure = 910,
    InvalidChannelDescriptor = 911,
    InvalidTexture = 912,
    Unknown = 999,
    RuntimeMemory = 1052,
    RuntimeOther = 1053,
}

impl std::fmt::Display for HipError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} ({})", self.name(), self.code())
    }
}
