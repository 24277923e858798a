import type { Collection } from './collection.js';
import type { RealtimeEvent } from './event.js';
import { mergeEvent, type TouchedProfile } from './touched-profile.js';
import { madeFrom } from './touched-profiles.js';

function findProfile(collection: Collection, { profileId, keys }: RealtimeEvent): number {
  const named = profileId === undefined ? -1 : collection.find(profileId);
  if (named >= 0) return named;
  for (const [name, value] of keys) {
    const position = collection.withKey(name, value);
    if (position >= 0) return position;
  }
  return -1;
}

const untouched = (at: number) => ({ version: 0, updatedAt: at, tickedAt: at, attributes: {}, added: {}, links: [] });

function makeProfile({ touched }: Collection, now: number): number {
  const position = madeFrom + touched.made;
  touched.add(position, { id: touched.nextId(), createdAt: now, ...untouched(now) });
  return position;
}

/** Moves the times of the profile at a position to now, and stores the profile if it is not stored yet. */
function touch(collection: Collection, position: number, now: number): number {
  const version = collection.version(position);
  const { createdAt, updatedAt } = collection.timesAt(position, version);
  // Days of changes may have moved the profile's times beyond the clock. They must not go back.
  const at = Math.max(now, updatedAt + 1);
  const known = collection.touched.get(position);
  if (known === undefined) {
    const person = { id: collection.idAt(position), number: collection.personAt(position), version, createdAt };
    collection.touched.add(position, { ...untouched(at), ...person });
  } else Object.assign(known, { version, updatedAt: at, tickedAt: at });
  return position;
}

/**
 * Applies an event. It finds the profile by id, or by the first key that a profile has, or makes a profile for the keys.
 * The profile gets the keys that no profile has. An event without a known id or any key changes nothing.
 */
export function applyEvent(collection: Collection, event: RealtimeEvent, now: number): void {
  const found = findProfile(collection, event);
  if (found < 0 && event.keys.length === 0) return;
  const position = found < 0 ? makeProfile(collection, now) : touch(collection, found, now);
  mergeEvent(collection.touched.get(position) as TouchedProfile, event.attributes, event.counts);
  for (const [name, value] of event.keys) {
    if (collection.withKey(name, value) < 0) collection.touched.link(position, name, value);
  }
  collection.revision += 1;
  if (found < 0) collection.counts.add(now, collection.total());
}
