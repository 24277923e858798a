/** Letters that the server compares as others, beside case and accents: those of utf8mb3_general_ci. */
const sameLetters: Readonly<Record<string, string>> = {
  ı: 'i',
  ß: 's',
  ſ: 's',
  µ: 'μ',
  ϐ: 'β',
  ϑ: 'θ',
  ϰ: 'κ',
  ϖ: 'π',
  ϱ: 'ρ',
  ς: 'σ',
  ϲ: 'σ',
  ϕ: 'φ',
};

function withoutMarks(name: string): string {
  return name.normalize('NFD').replace(/\p{M}/gu, '');
}

/** A name as the server compares names of columns: in tables of 32 columns and more, it finds others by their letters alone. */
export function foldedName(name: string): string {
  // İ and i are one letter too.
  const letters = [...withoutMarks(withoutMarks(name).toLowerCase())];
  return letters.map((letter) => sameLetters[letter] ?? letter).join('');
}
