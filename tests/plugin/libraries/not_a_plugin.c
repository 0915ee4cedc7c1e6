/* A shared library like any other. */
int answer(void);

__attribute__((visibility("default"))) int answer(void) { return 42; }
