/** Which names of tables and columns a destination accepts. A name that breaks a rule is replaced, always in the same way. */
export interface IdentifierRules {
  /** Default: 63 bytes of UTF-8, beyond which a name is cut and gets 8 digits of its hash. */
  readonly maxBytes?: number;
  /** Names that differ only in case are one: default true. */
  readonly ignoresCase?: boolean;
  /** Names are stored in small letters, however they are written. Default: false. */
  readonly inSmallLetters?: boolean;
  /** The form in which the destination compares names, if it ignores case. Default: in lower case. */
  readonly fold?: (name: string) => string;
  /** One character that is allowed; others become `_`, and the name gets 6 digits of its hash. Default: any but NUL. */
  readonly allowed?: RegExp;
  /** How a name must begin; any other name is prefixed with `_` and gets 6 digits of its hash. Default: with anything. */
  readonly begins?: RegExp;
  /** How a name must end; any other name gets 6 digits of its hash. Default: with anything. */
  readonly ends?: RegExp;
  /** Forbidden names, in lower case; such a name gets 6 digits of its hash. Default: none. */
  readonly reserved?: readonly string[];
}
