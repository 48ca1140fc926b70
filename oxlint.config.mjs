// What the linter holds. Each rule earns its place: it finds bugs, or keeps the shape of the code.
// `test/lint/fixture` breaks every rule named here, and a test proves that each break is seen.

export default {
  plugins: ['typescript', 'import', 'unicorn', 'oxc'],
  jsPlugins: ['./scripts/lint/plugin.mjs'],
  categories: { correctness: 'error' },
  // Programs on other clients, in the ways of those.
  ignorePatterns: ['test/clients/agents/**'],
  rules: {
    // The shape: one direction of dependency, the world as ports, decisions without waiting.
    'playhead/layers': 'error',
    'playhead/world': 'error',
    'playhead/pure': 'error',
    'playhead/no-sleep': 'error',
    'import/no-cycle': 'error',
    'import/no-default-export': 'error',

    // Promises: each settles, and somebody looks.
    'typescript/no-floating-promises': [
      'error',
      {
        allowForKnownSafeCalls: [
          { from: 'package', package: 'node:test', name: ['test', 'describe', 'it', 'suite'] }
        ]
      }
    ],
    'typescript/no-misused-promises': ['error', { checksVoidReturn: false }],
    'typescript/await-thenable': 'off', // awaiting what may be a promise is how code stays short
    'unicorn/no-unnecessary-await': 'off', // the same, without types
    'typescript/return-await': ['error', 'error-handling-correctness-only'],
    'no-async-promise-executor': 'error',

    // Types say what is true.
    'typescript/no-explicit-any': 'error',
    'typescript/no-non-null-assertion': 'error',
    'typescript/switch-exhaustiveness-check': [
      'error',
      { considerDefaultExhaustiveForUnions: true }
    ],
    'typescript/no-unnecessary-type-assertion': 'error',
    'typescript/consistent-type-imports': 'error',
    'typescript/ban-ts-comment': 'error',

    // Errors are errors, and are not hidden.
    'typescript/only-throw-error': 'error',
    'typescript/prefer-promise-reject-errors': 'error',
    'no-empty': 'error',
    'no-useless-catch': 'error',

    // Not slips here: arrays made at their size for speed, and expressions that look for control characters.
    'unicorn/no-new-array': 'off',
    'no-control-regex': 'off',

    // Slips.
    eqeqeq: 'error',
    'no-var': 'error',
    'prefer-const': 'error',
    'no-fallthrough': 'error',
    'no-self-compare': 'error',
    'no-unused-vars': [
      'error',
      { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrors: 'all' }
    ]
  },
  overrides: [
    {
      // A test may do on purpose what code should not: spread a string, print a secret, take a codec apart.
      files: ['test/**/*.ts'],
      excludeFiles: ['test/lint/fixture/**'],
      rules: {
        'typescript/no-misused-spread': 'off',
        'typescript/restrict-template-expressions': 'off',
        'typescript/unbound-method': 'off'
      }
    },
    {
      files: ['*.config.mjs', 'scripts/lint/plugin.mjs'],
      rules: { 'import/no-default-export': 'off' }
    }
  ]
}
