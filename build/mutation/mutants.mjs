// The mutants of a source file: small changes, each of which some test should notice.

import { parseAst } from 'vitest/node';

const otherOperator = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
  '-': '+',
  '*': '/',
  '/': '*',
  '%': '*',
  '&': '|',
  '|': '&',
};
const otherMethod = { every: 'some', some: 'every', min: 'max', max: 'min', ceil: 'floor', floor: 'ceil' };
/** Words of SQL in a template. */
const otherWords = [
  [' AND ', ' OR '],
  [' OR ', ' AND '],
  [' NOT IN ', ' IN '],
  ['LEFT JOIN', 'JOIN'],
  ['EXCEPT', 'UNION'],
  [' DESC', ' ASC'],
  [' <> ', ' = '],
  [' < ', ' <= '],
];
/** What the program does not compute with. */
const ignored = new Set(['ImportDeclaration', 'ExportAllDeclaration', 'ThrowStatement']);
/** The only nodes of types that contain a value. */
const typedValues = new Set(['TSAsExpression', 'TSNonNullExpression', 'TSSatisfiesExpression', 'TSParameterProperty']);

const isText = (node) => node.type === 'TemplateLiteral' || (node.type === 'Literal' && typeof node.value === 'string');

/** @returns for a node: where to replace what, as [start, end, text] */
function replacements(node, source) {
  const text = ({ start, end }) => source.slice(start, end);
  const between = (operator, other) => {
    const at = source.indexOf(operator, node.left.end);
    return [at, at + operator.length, other];
  };
  switch (node.type) {
    case 'LogicalExpression':
      if (node.operator === '??') return [[node.start, node.end, `(${text(node.right)})`]];
      return [between(node.operator, node.operator === '&&' ? '||' : '&&')];
    case 'BinaryExpression':
      if (node.operator === '+') return isText(node.left) || isText(node.right) ? [] : [between('+', '-')];
      return node.operator in otherOperator ? [between(node.operator, otherOperator[node.operator])] : [];
    case 'ConditionalExpression':
    case 'IfStatement':
      return ['true', 'false'].map((value) => [node.test.start, node.test.end, value]);
    case 'UnaryExpression':
      return node.operator === '!' ? [[node.start, node.end, `(${text(node.argument)})`]] : [];
    case 'Literal':
      if (typeof node.value === 'boolean') return [[node.start, node.end, String(!node.value)]];
      return typeof node.value === 'number' ? [[node.start, node.end, String(node.value + 1)]] : [];
    case 'MemberExpression':
      if (node.computed || !(node.property.name in otherMethod)) return [];
      return [[node.property.start, node.property.end, otherMethod[node.property.name]]];
    case 'TemplateElement':
      return otherWords.flatMap(([word, other]) => {
        const at = text(node).indexOf(word);
        return at < 0 ? [] : [[node.start + at, node.start + at + word.length, other]];
      });
    default:
      return [];
  }
}

function visit(node, source, found) {
  if (ignored.has(node.type) || (node.type?.startsWith('TS') && !typedValues.has(node.type))) return;
  if (typeof node.type === 'string') found.push(...replacements(node, source));
  for (const part of Object.values(node)) {
    if (Array.isArray(part)) for (const item of part) item && typeof item === 'object' && visit(item, source, found);
    else if (part && typeof part === 'object') visit(part, source, found);
  }
}

/** @returns in the order of the file: line, what stands there, what would stand there instead, and the whole text with it */
export function mutantsOf(source) {
  const found = [];
  visit(parseAst(source, { lang: 'ts' }), source, found);
  const distinct = new Map(found.map((each) => [each.join(' '), each]));
  return [...distinct.values()]
    .sort(([a], [b]) => a - b)
    .map(([start, end, text]) => ({
      line: source.slice(0, start).split('\n').length,
      from: source.slice(start, end),
      to: text,
      source: `${source.slice(0, start)}${text}${source.slice(end)}`,
    }));
}
