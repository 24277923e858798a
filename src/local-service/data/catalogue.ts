/** One of the generated indexes: which profiles it holds, and which of their attributes it shows. */
export interface IndexDefinition {
  readonly name: string;
  readonly description: string;
  /** The index holds each profile whose number divided by `stride` leaves the remainder `offset`. */
  readonly stride: number;
  readonly offset: number;
  /**
   * Attributes that differ from profile to profile, as JSON text. `{number}` means the profile's number in ten digits. Of the
   * profile that first had its e-mail and phone, `{contact}` means the number, `{scattered}` the id in ten digits, and
   * `{mailbox}`, at the very end, the name in the e-mail address.
   */
  readonly ownAttributes: string;
  readonly person: readonly string[];
  readonly address: readonly string[];
  readonly activity: readonly string[];
  readonly filterable: readonly string[];
}

const email = '"email":"m{contact}.{mailbox}';

/** The indexes that a tenant has from the start. */
export const catalogue: readonly IndexDefinition[] = [
  {
    name: 'loyalty_members',
    description: 'Everybody in the loyalty programme',
    stride: 1,
    offset: 0,
    ownAttributes: `"loyalty_id":"LM{number}","phone":"+1{scattered}",${email}`,
    person: ['first_name', 'last_name', 'birthday', 'gender', 'language', 'email_opt_in', 'consents', 'joined_at'],
    address: ['country', 'city', 'zip', 'district', 'timezone'],
    activity: [
      'tier',
      'points',
      'orders',
      'ltv',
      'average_order',
      'last_order_at',
      'preferred_store',
      'tags',
      'devices',
      'churn_risk',
      'is_active',
      'note',
      'updated_at',
    ],
    filterable: ['country', 'tier', 'city', 'zip', 'language', 'is_active'],
  },
  {
    name: 'newsletter_subscribers',
    description: 'Everybody who gets the newsletter',
    stride: 4,
    offset: 1,
    ownAttributes: email,
    person: ['first_name', 'last_name', 'language', 'email_opt_in', 'sms_opt_in'],
    address: ['country', 'timezone'],
    activity: ['tags', 'is_active', 'updated_at'],
    filterable: ['country', 'language', 'is_active'],
  },
  {
    name: 'store_visitors',
    description: 'Everybody seen in a store',
    stride: 10,
    offset: 3,
    ownAttributes: `"visitor_id":"V{number}","phone":"+1{scattered}",${email}`,
    person: ['first_name', 'last_name'],
    address: ['country', 'city', 'zip'],
    activity: ['tier', 'preferred_store', 'last_order_at', 'churn_risk', 'updated_at'],
    filterable: ['country', 'city', 'preferred_store'],
  },
];
