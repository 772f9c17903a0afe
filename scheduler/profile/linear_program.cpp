// SPDX-License-Identifier: MIT
// One tableau: the rows with their slack variables, and the gain in the last row.
#include "scheduler/profile/linear_program.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "engine/base/check.h"

namespace ballast::scheduler {

namespace {

constexpr double kZero = 1e-10;
constexpr std::size_t kNone = static_cast<std::size_t>(-1);

class Tableau {
  public:
    explicit Tableau(const LinearProgram& program)
        : n_(program.gain.size()), m_(program.rows.size()) {
        cells_.assign(m_ + 1, std::vector<double>(n_ + m_ + 1, 0.0));
        for (std::size_t row = 0; row < m_; ++row) {
            // So that what is as good as 0 does not depend on a row's unit.
            double largest = 0.0;
            for (const double cell : program.rows[row]) {
                largest = std::max(largest, std::abs(cell));
            }
            const double scale = largest > 0.0 ? 1.0 / largest : 1.0;
            for (std::size_t column = 0; column < n_; ++column) {
                cells_[row][column] = program.rows[row][column] * scale;
            }
            cells_[row][n_ + row] = 1.0;
            cells_[row].back() = program.limits[row] * scale;
            basis_.push_back(n_ + row);
        }
        for (std::size_t column = 0; column < n_; ++column) {
            cells_[m_][column] = -program.gain[column];
        }
    }

    double solve() {
        for (std::size_t column = entering(); column != kNone; column = entering()) {
            const std::size_t row = leaving(column);
            if (row == kNone) {
                return std::numeric_limits<double>::infinity();
            }
            pivot(row, column);
        }
        return cells_[m_].back();
    }

  private:
    /// The first variable that would raise the gain.
    std::size_t entering() const {
        for (std::size_t column = 0; column < n_ + m_; ++column) {
            if (cells_[m_][column] < -kZero) {
                return column;
            }
        }
        return kNone;
    }
    /// The row that stops it first; of equal ones that of the first variable.
    std::size_t leaving(std::size_t column) const {
        std::size_t best = kNone;
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t row = 0; row < m_; ++row) {
            if (cells_[row][column] <= kZero) {
                continue;
            }
            const double ratio = cells_[row].back() / cells_[row][column];
            if (ratio < least || (ratio == least && basis_[row] < basis_[best])) {
                least = ratio;
                best = row;
            }
        }
        return best;
    }
    void pivot(std::size_t row, std::size_t column) {
        const double by = cells_[row][column];
        for (double& cell : cells_[row]) {
            cell /= by;
        }
        for (std::size_t other = 0; other <= m_; ++other) {
            const double factor = cells_[other][column];
            if (other == row || factor == 0.0) {
                continue;
            }
            for (std::size_t i = 0; i < cells_[other].size(); ++i) {
                cells_[other][i] -= factor * cells_[row][i];
            }
        }
        basis_[row] = column;
    }

    std::size_t n_;
    std::size_t m_;
    std::vector<std::vector<double>> cells_;  // [m + 1][n + m + 1]
    std::vector<std::size_t> basis_;          // variable of each row
};

}  // namespace

double maximum(const LinearProgram& program) {
    BALLAST_CHECK(program.rows.size() == program.limits.size());
    for (std::size_t row = 0; row < program.rows.size(); ++row) {
        BALLAST_CHECK(program.rows[row].size() == program.gain.size());
        BALLAST_CHECK(program.limits[row] >= 0.0);
    }
    return Tableau(program).solve();
}

}  // namespace ballast::scheduler
