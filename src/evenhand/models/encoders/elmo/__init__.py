"""ELMo: contextual vectors by a character CNN and a bidirectional language model (Peters et al. 2018).

It needs torch; files in HDF5, as AllenNLP publishes them, need h5py.
"""
