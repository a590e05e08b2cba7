/* A treap: a search tree by order that is at the same time a heap by weight. Weights are the nodes' mixed addresses, as
 * good as random and costing no memory, so the tree is balanced whatever the order of inserts. `first` and `last` are
 * kept, and an insert tries the ends before it descends.
 */
#include "store/memory_tree.h"
#include "base/check.h"
#include <stddef.h>
#include <stdint.h>

static uint64_t weight(const tree_node *node)
{
    uint64_t x = (uint64_t)(uintptr_t)node >> 4;
    x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 32) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 29;
}

void tree_init(tree *t, tree_order before) { *t = (tree){.before = before}; }

static tree_node **place_of(tree *t, tree_node *node)
{
    return node->parent ? &node->parent->child[node->parent->child[1] == node] : &t->root;
}

/* Lifts the node above its parent. */
static void lift(tree *t, tree_node *node)
{
    tree_node *parent = node->parent;
    int side = parent->child[1] == node;
    tree_node **top = place_of(t, parent), *middle = node->child[!side];
    parent->child[side] = middle;
    if (middle) middle->parent = parent;
    node->child[!side] = parent;
    node->parent = parent->parent;
    parent->parent = node;
    *top = node;
}

static void attach(tree *t, tree_node *parent, int side, tree_node *node)
{
    *node = (tree_node){.parent = parent};
    if (!parent) {
        t->root = t->first = t->last = node;
        return;
    }
    parent->child[side] = node;
    if (side == 0 && parent == t->first) t->first = node;
    if (side == 1 && parent == t->last) t->last = node;
    uint64_t own = weight(node);
    while (node->parent && weight(node->parent) < own) lift(t, node);
}

void tree_insert(tree *t, tree_node *node)
{
    if (!t->root || t->before(t->last, node)) {
        attach(t, t->last, 1, node);
    } else if (t->before(node, t->first)) {
        attach(t, t->first, 0, node);
    } else {
        tree_node *at = t->root;
        int side = t->before(at, node);
        while (at->child[side]) {
            at = at->child[side];
            side = t->before(at, node);
        }
        attach(t, at, side, node);
    }
}

void tree_remove(tree *t, tree_node *node)
{
    CHECK(*place_of(t, node) == node);
    if (t->first == node) t->first = tree_next(node);
    if (t->last == node) t->last = tree_prev(node);
    while (node->child[0] && node->child[1]) lift(t, node->child[weight(node->child[1]) > weight(node->child[0])]);
    tree_node *child = node->child[node->child[1] != NULL];
    *place_of(t, node) = child;
    if (child) child->parent = node->parent;
    *node = (tree_node){0};
}

static tree_node *step(const tree_node *node, int side)
{
    if (node->child[side]) {
        node = node->child[side];
        while (node->child[!side]) node = node->child[!side];
        return (tree_node *)node;
    }
    while (node->parent && node->parent->child[side] == node) node = node->parent;
    return node->parent;
}

tree_node *tree_next(const tree_node *node) { return step(node, 1); }

tree_node *tree_prev(const tree_node *node) { return step(node, 0); }

tree_node *tree_from(const tree *t, tree_below below, const void *key)
{
    tree_node *found = NULL;
    for (tree_node *at = t->root; at;) {
        if (below(at, key)) {
            at = at->child[1];
        } else {
            found = at;
            at = at->child[0];
        }
    }
    return found;
}
