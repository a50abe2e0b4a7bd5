/* The text of simple values, as in columns_in_python.py: see _columns.c. */

#include <math.h>
#include <stdio.h>

/* Return whether C makes the text of a value. */
static int has_text(const Value *value)
{
    return value->kind != TIME && (value->kind != DOUBLE || isfinite(value->real));
}

static int put_hexadecimal(Vector *vector, const Value *value)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < value->size; i++) {
        const char pair[] = {digits[value->at[i] >> 4], digits[value->at[i] & 0xf]};
        const int dash = value->kind == UNIQUE_ID && (i == 4 || i == 6 || i == 8 || i == 10);
        if ((dash && put(&vector->values, "-", 1) < 0) || put(&vector->values, pair, 2) < 0)
            return -1;
    }
    return put_bytes(vector, "", 0);
}

static int put_real(Vector *vector, double real)
{
    char *text = PyOS_double_to_string(real, 'r', 0, 2 /* Py_DTSF_ADD_DOT_0 */, NULL);
    if (text == NULL)
        return -1;
    const int done = put_bytes(vector, text, strlen(text));
    PyMem_Free(text);
    return done;
}

/* Put the text of a value that has one. */
static int put_text(Vector *vector, const Value *value)
{
    char digits[24];
    switch (value->kind) {
    case ABSENT: return put_no_bytes(vector);
    case STRING: case SYMBOL: return put_bytes(vector, (const char *)value->at, value->size);
    case FLAG: return value->number ? put_bytes(vector, "true", 4) : put_bytes(vector, "false", 5);
    case UNSIGNED:
        return put_bytes(vector, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)value->number));
    case SIGNED:
        return put_bytes(vector, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)value->number));
    case DOUBLE: return put_real(vector, value->real);
    default: return put_hexadecimal(vector, value);
    }
}
