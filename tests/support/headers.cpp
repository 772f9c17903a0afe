// SPDX-License-Identifier: MIT
// Carries the precompiled headers that all tests share; does nothing.
int main() {}
